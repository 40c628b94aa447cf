// SPDX-License-Identifier: Apache-2.0
/// The fast path for plans that move whole experts in one round: nothing is cut, relayed or
/// converted.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Whether the fast path applies. Then owners send all that travels.
[[nodiscard]] inline bool moves_whole_experts(transfer_plan const& plan) {
  return plan.rounds() <= 1 && plan.pieces() == 1 && plan.slices() == 1;
}

/// A gather: the messages of gather_pass, without its case distinctions.
/// @pre the plan moves whole experts, and no tensor changes its type
inline void gather_whole_experts(communicator_ref const& comm, gather_buffers const& of) {
  auto const tensors = of.to.size();
  for (std::size_t slot = 0; slot < of.slots.size(); ++slot) {
    auto const chunk = chunk_id{of.slots[slot], slice_id{0}};
    if (!of.owns(chunk)) continue;
    for (std::size_t k = 0; k < tensors; ++k) {
      auto const own = of.from[k][of.plan.owner_slot(chunk)].bytes();
      if (!own.empty()) copy_on(comm, own, of.to[k][slot].bytes());
    }
  }
  comm.agree(of.label);
  if (of.plan.rounds() == 0) return;
  comm.exchange([&](batch_ref const& batch) {
    batch.label({of.label, 0});
    for (auto const& t : of.plan.sends(of.me, 0))
      for (std::size_t k = 0; k < tensors; ++k)
        batch.send(of.from[k][of.plan.owner_slot(t.chunk)].bytes(), t.destination);
    for (auto const& t : of.plan.receives(of.me, 0))
      for (std::size_t k = 0; k < tensors; ++k)
        batch.recv(of.to[k][transfer_plan::slot_in(of.slots, t.chunk.expert)].bytes(), t.source);
  });
}

/// A reduction between ranks that read each other's host memory in place: the messages and the sums
/// of reduction_pass.
/// @param list room for the operands of one sum
/// @pre the plan moves whole experts
inline void reduce_whole_experts(communicator_ref const& comm, reduction_buffers const& of,
                                 std::span<summand> list) {
  auto const& plan = of.plan;
  auto const tensors = of.partials.size();
  auto const label = plan.hash_value();
  comm.agree(label);
  auto const sum_unshared = [&] {
    form_sums(comm, [&](sum_batch& sums) { of.sum_unshared(sums); });
  };
  if (plan.rounds() == 0) return sum_unshared();
  auto const held = plan.materialized(of.me);
  auto const back = plan.sends(of.me, 0);
  auto const sum_pieces = [&](sum_batch& sums, std::span<std::span<std::byte const> const> lent) {
    for (std::size_t first = 0, last = 0; first < back.size(); first = last) {
      while (last < back.size() && back[last].chunk == back[first].chunk) ++last;
      auto const senders = back.subspan(first, last - first);
      for (std::size_t k = 0; k < tensors; ++k) {
        auto const summands = of.in_rank_order(k, senders, 0, list, [&](std::size_t i) {
          return summand{.partial = lent[(first + i) * tensors + k].data()};
        });
        sums.add(of.to_owner(k), summands, of.gradient(k, senders.front().what()));
      }
    }
  };
  comm.exchange_lending(
      [&](batch_ref const& batch) {
        batch.label({label, 1});
        for (auto const& t : plan.receives(of.me, 0))
          for (std::size_t k = 0; k < tensors; ++k)
            batch.send(of.partials[k][transfer_plan::slot_in(held, t.chunk.expert)].bytes(),
                       t.source);
        for (auto const& t : back)
          for (std::size_t k = 0; k < tensors; ++k)
            batch.borrow(of.extents.slice(k, t.chunk).elements * of.partials[k].element_bytes,
                         t.destination);
      },
      [&](std::span<std::span<std::byte const> const> lent) {
        form_sums(comm, [&](sum_batch& sums) { sum_pieces(sums, lent); });
        sum_unshared();  // while peers still read this rank's memory
      });
}

}  // namespace fssdp::detail
