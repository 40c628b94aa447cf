// SPDX-License-Identifier: Apache-2.0
/// What a stream-bound communicator would read when it is gone: LACKS names a temporary, of a list
/// of tensors or of their memory. Things that have names, and spans of them, are taken; so are
/// temporaries where the work is done in the call.
#include <array>
#include <vector>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/core/bytes_of.hpp"
#include "fssdp/core/expert_buffer.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"

#ifndef LACKS
#define LACKS 0
#endif

using bound = fssdp::queued_communicator<fssdp::thread_communicator>;
using buffer = fssdp::expert_buffer<float>;
using stack = fssdp::layer_stack<fssdp::block_layout>;

void call(bound& comm, fssdp::transfer_plan const& plan, buffer& from, buffer& to,
          fssdp::coded_links<fssdp::bf16_codec> const& links) {
#if LACKS == 1
  sparse_all_gather(comm, plan, fssdp::bytes_of(from), to);
#elif LACKS == 2
  sparse_all_gather(comm, plan, from, fssdp::bytes_of(to));
#elif LACKS == 3
  sparse_all_gather(comm, plan, fssdp::expert_tensor<float>{}, to);
#elif LACKS == 4
  sparse_all_gather(comm, plan, from, std::vector{to.tensors()[0]});
#elif LACKS == 5
  sparse_all_gather(comm, plan, from, buffer{});
#elif LACKS == 6
  sparse_all_gather(comm, plan, std::array{from.tensors()[0]}, to, links);
#elif LACKS == 7
  sparse_all_gather(comm, plan, from, fssdp::expert_tensor<float>{}, links, {.scratch = nullptr});
#elif LACKS == 8
  sparse_all_gather(comm, plan, fssdp::bytes_of(from), to, fssdp::uncoded{});
#elif LACKS == 9
  sparse_reduce_scatter(comm, plan, std::vector{from.tensors()[0]}, to);
#elif LACKS == 10
  sparse_reduce_scatter(comm, plan, from, fssdp::expert_tensor<float>{});
#elif LACKS == 11
  sparse_reduce_scatter(comm, plan, buffer{}, to, links);
#elif LACKS == 12
  sparse_reduce_scatter(comm, plan, from, to, links, buffer{});
#elif LACKS == 13
  sparse_reduce_scatter(comm, plan, from, std::vector{to.tensors()[0]}, fssdp::uncoded{});
#else
  sparse_all_gather(comm, plan, from, to);
  sparse_all_gather(comm, plan, from.tensors(), to.tensors());
  sparse_all_gather(comm, plan, from.tensors()[0], to.tensors()[0], links);
  sparse_all_gather(comm, plan, from, to, fssdp::uncoded{});
  sparse_reduce_scatter(comm, plan, from.tensors(), to);
  sparse_reduce_scatter(comm, plan, from, to.tensors(), links);
  sparse_reduce_scatter(comm, plan, from, to.tensors(), links, to.tensors(), {.scale = 2});
  sparse_reduce_scatter(comm, plan, from, to, fssdp::uncoded{});
  auto const list = fssdp::bytes_of(from);
  auto const other_list = fssdp::bytes_of(to);
  sparse_all_gather(comm, plan, list, other_list);
#endif
}

void call(bound& comm, stack const& layers, fssdp::transfer_plan const& plan, buffer& arena,
          buffer& to) {
#if LACKS == 14
  auto const layer = fssdp::layer_id{0};
  sparse_all_gather(comm, plan, layer_shard(layers, layer, comm.rank(), arena), to);
#else
  auto const shard = layer_shard(layers, fssdp::layer_id{0}, comm.rank(), arena);
  sparse_all_gather(comm, plan, shard, to);
#endif
}

void call(bound& comm, fssdp::reshard_plan const& plan, buffer& shard) {
#if LACKS == 15
  reshard(comm, plan, buffer{});
#else
  reshard(comm, plan, shard);
  reshard(comm, fssdp::reshard_plan{plan}, fssdp::bytes_of(shard, shard));  // both are copied
#endif
}

void call(fssdp::thread_communicator& comm, fssdp::transfer_plan const& plan, buffer& from,
          buffer& to) {
  sparse_all_gather(comm, plan, fssdp::bytes_of(from), fssdp::bytes_of(to));
  sparse_reduce_scatter(comm, plan, buffer{}, std::vector{to.tensors()[0]});
}
