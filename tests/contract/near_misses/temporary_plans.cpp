// SPDX-License-Identifier: Apache-2.0
/// Plans that a stream-bound communicator would read when they are gone: LACKS names a temporary.
/// One that has a name is taken; so is a temporary where the work is done in the call.
#include <utility>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/core/expert_buffer.hpp"
#include "fssdp/token/dispatch.hpp"

#ifndef LACKS
#define LACKS 0
#endif

using bound = fssdp::queued_communicator<fssdp::thread_communicator>;
using buffer = fssdp::expert_buffer<float>;
using rows = fssdp::rows_view<float>;

void call(bound& comm, fssdp::transfer_plan const& plan, buffer& from, buffer& to,
          fssdp::coded_links<fssdp::bf16_codec> const& links) {
  using temporary = fssdp::transfer_plan;
#if LACKS == 1
  sparse_all_gather(comm, temporary{plan}, from, to);
#elif LACKS == 2
  sparse_all_gather(comm, std::move(plan), from, to, {.scratch = nullptr});
#elif LACKS == 3
  sparse_all_gather(comm, temporary{plan}, from, to, links);
#elif LACKS == 4
  sparse_all_gather(comm, temporary{plan}, from, to, fssdp::uncoded{});
#elif LACKS == 5
  sparse_reduce_scatter(comm, temporary{plan}, from, to, {.scale = 2});
#elif LACKS == 6
  sparse_reduce_scatter(comm, std::move(plan), from, to, links);
#elif LACKS == 7
  sparse_reduce_scatter(comm, temporary{plan}, from, to, links, to);
#elif LACKS == 8
  sparse_reduce_scatter(comm, temporary{plan}, from, to, fssdp::uncoded{});
#else
  sparse_all_gather(comm, plan, from, to, {.scratch = nullptr});
  sparse_all_gather(comm, plan, from, to, links);
  sparse_all_gather(comm, plan, from, to, fssdp::uncoded{});
  sparse_reduce_scatter(comm, plan, from, to, {.scale = 2});
  sparse_reduce_scatter(comm, plan, from, to, links);
  sparse_reduce_scatter(comm, plan, from, to, links, to);
  sparse_reduce_scatter(comm, plan, from, to, fssdp::uncoded{});
#endif
}

void call(bound& comm, fssdp::token_plan const& plan, rows from, rows to) {
  using temporary = fssdp::token_plan;
#if LACKS == 9
  dispatch(comm, temporary{plan}, from, to);
#elif LACKS == 10
  combine(comm, temporary{plan}, from, to);
#elif LACKS == 11
  dispatch(comm, std::move(plan), from, to);
#else
  dispatch(comm, plan, from, to);
  combine(comm, plan, from, to);
#endif
}

void call(fssdp::thread_communicator& comm, fssdp::transfer_plan const& plan,
          fssdp::token_plan const& tokens, buffer& from, buffer& to, rows at) {
  sparse_all_gather(comm, fssdp::transfer_plan{plan}, from, to);
  sparse_reduce_scatter(comm, std::move(plan), from, to);
  dispatch(comm, fssdp::token_plan{tokens}, at, at);
  combine(comm, std::move(tokens), at, at);
}
