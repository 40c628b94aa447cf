// SPDX-License-Identifier: Apache-2.0
/// SparseAllGather: owners' parameters to replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Copies every expert from its owner to all that hold it. The transpose of sparse_reduce_scatter.
///
/// @param from [owned, elements] per tensor: the shard, in the layout's slot order
/// @param to   [foreign, elements] per tensor: the replicas, ascending experts; or
///             [held, elements]: then the rank's own experts are copied in as well, so that all
///             that it holds lies in one piece
/// @pre every rank calls with an equal plan and equal sizes; `from` and `to` do not overlap; plan,
///      buffers and views of them live until the communicator is synchronized
/// @post on every rank, each held expert has the bits of its owner; when the gather has completed
///       on a rank, no peer reads that rank's `from` any more
/// @cost a message per tensor of each of the rank's transfers in the plan; one exchange per round;
///       no packing, no allocation
/// @throws argument_error before anything is sent; transport errors
/// (Paper: spAG, SparseAllGather)
template <communicator Comm, expert_memory From, expert_memory To>
void sparse_all_gather(Comm& comm, transfer_plan const& plan, From const& from, To&& to) {
  using T = element_of<From const>;
  static_assert(std::is_same_v<T, element_of<To>>, "from and to have different element types");
  constexpr auto verb = "sparse_all_gather";
  auto const shard = tensors_of(from);
  auto const replicas = tensors_of(to);
  auto const rank = comm.rank();
  detail::check_world(verb, comm, plan);
  detail::check_tensors(verb, shard, replicas);
  detail::check_slots(verb, "from", shard, plan.owned_count(rank), "experts that the rank owns");
  auto const foreign = plan.foreign(rank);
  auto const held = plan.held(rank);
  auto const in_one_piece = !replicas.empty() && replicas.front().slots == held.size();
  detail::check_slots(verb, "to", replicas, in_one_piece ? held.size() : foreign.size(),
                      "experts that the rank holds and does not own; or all it holds");

  submit(comm, [&plan, shard, replicas, slots = in_one_piece ? held : foreign](auto& lane) {
    auto const me = lane.rank();
    auto const replica = [&](std::size_t k, expert_id expert) {
      return replicas[k][transfer_plan::slot_in(slots, expert)];
    };
    auto const source = [&](std::size_t k, expert_id expert) -> std::span<T const> {
      if (plan.owner(expert) == me) return shard[k][plan.owner_slot(expert)];
      return replica(k, expert);
    };
    for (int round = 0; round < plan.rounds(); ++round)
      lane.exchange([&](auto& batch) {
        set_label(batch, {plan.hash_value(), round});
        for (auto const& t : plan.sends(me, round))
          for (std::size_t k = 0; k < shard.size(); ++k)
            batch.send(std::as_bytes(source(k, t.expert)), t.destination);
        for (auto const& t : plan.receives(me, round))
          for (std::size_t k = 0; k < shard.size(); ++k)
            batch.recv(std::as_writable_bytes(replica(k, t.expert)), t.source);
      });
    for (auto const expert : slots)
      if (plan.owner(expert) == me)
        for (std::size_t k = 0; k < shard.size(); ++k)
          std::ranges::copy(source(k, expert), replica(k, expert).begin());
  });
}

}  // namespace fssdp
