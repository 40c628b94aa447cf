// SPDX-License-Identifier: Apache-2.0
/// Plans that a stream-bound communicator would read when they are gone: LACKS names a collective that
/// is given a temporary one. All of them: tests/collective/lifetimes.cpp.
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/token/dispatch.hpp"

#ifndef LACKS
#define LACKS 0
#endif

using bound = fssdp::queued_communicator<fssdp::thread_communicator>;
using buffer = fssdp::expert_buffer<float>;
using rows = fssdp::rows_view<float>;

void call(bound& comm, fssdp::transfer_plan const& plan, fssdp::token_plan const& tokens,
          buffer& from, buffer& to, rows at) {
#if LACKS == 1
  sparse_all_gather(comm, fssdp::transfer_plan{plan}, from, to);
#elif LACKS == 2
  dispatch(comm, fssdp::token_plan{tokens}, at, at);
#else
  sparse_all_gather(comm, plan, from, to);
  dispatch(comm, tokens, at, at);
#endif
}
