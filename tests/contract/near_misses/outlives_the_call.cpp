// SPDX-License-Identifier: Apache-2.0
/// A stream-bound communicator would read memory that has been freed: LACKS says which collective
/// is given a temporary. What else is an error, and what is accepted:
/// tests/collective/lifetimes.cpp.
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"

#ifndef LACKS
#define LACKS 0
#endif

using bound = fssdp::queued_communicator<fssdp::thread_communicator>;
using buffer = fssdp::expert_buffer<float>;

void call(bound& comm, fssdp::transfer_plan const& plan, fssdp::reshard_plan const& moves,
          buffer& from, buffer& to) {
#if LACKS == 1
  sparse_all_gather(comm, plan, buffer{}, to);
#elif LACKS == 2
  sparse_reduce_scatter(comm, plan, from, buffer{});
#elif LACKS == 3
  reshard(comm, moves, buffer{});
#else
  sparse_all_gather(comm, plan, fssdp::bytes_of(from), fssdp::bytes_of(to));
  sparse_reduce_scatter(comm, plan, from, to.tensors()[0]);
  reshard(comm, moves, from);
#endif
}
