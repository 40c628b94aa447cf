// SPDX-License-Identifier: Apache-2.0
/// What a reduction reads and writes on one rank, piece by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/tensor_list.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// How many transfers bring operands to a rank in one round, at most.
[[nodiscard]] inline std::size_t most_operands(transfer_plan const& plan, rank_id rank) {
  auto most = std::size_t{0};
  for (int round = 0; round < plan.rounds(); ++round)
    most = std::max(most, plan.sends(rank, round).size());
  return most;
}

/// The types of a reduction.
struct reduction_types {
  std::size_t partial_bytes = 1;  ///< of an element
  element_sum to_gradients;       ///< what becomes of a sum at its owner
  element_sum to_sums;            ///< and where it is passed on
};

template <element Partial, element Gradient>
[[nodiscard]] constexpr reduction_types make_reduction_types() {
  return {.partial_bytes = sizeof(Partial),
          .to_gradients = make_sum<Partial, Gradient>(),
          .to_sums = make_sum<Partial, accumulator_t<Partial>>()};
}

struct reduction_buffers {
  transfer_plan const& plan;
  rank_id me;
  std::span<tensor_view const> partials;
  std::span<tensor_view const> gradients;
  reduction_types types;
  double scale;
  output into;
  piece_extents extents{plan, tensor_sizes{partials}};

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  /// Whether a rank sends back a sum of several instead of its partial.
  [[nodiscard]] bool forwards(rank_id rank, piece_id piece) const {
    return std::ranges::binary_search(plan.forwarded(rank), piece);
  }

  [[nodiscard]] element_range partial(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(plan.held(me), piece.chunk.expert);
    return extents.cut_expert(partials[k][slot], k, piece);
  }
  [[nodiscard]] element_range gradient(std::size_t k, piece_id piece) const {
    return extents.cut_slice(gradients[k][plan.owner_slot(piece.chunk)], k, piece);
  }

  /// What comes back for a transfer, as it is: a partial, or a sum if its receiver has passed the
  /// piece on.
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    auto const is_sum = forwards(t.destination, t.what());
    return extents.elements(k, t.what()) *
           (is_sum ? types.to_sums.result_bytes : types.partial_bytes);
  }
  /// Such an operand from its element `first` on.
  [[nodiscard]] summand received(transfer const& t, std::byte const* data,
                                 std::size_t first) const {
    if (forwards(t.destination, t.what()))
      return {.summed = data + first * types.to_sums.result_bytes};
    return {.partial = data + first * types.partial_bytes};
  }

  /// Lists what is summed for a piece, from its element `first` on, in rank order: what those send
  /// back who got it, operand_of(i) for senders[i], and this rank's own partial, if it has one.
  /// @return the beginning of `list` that is used
  template <class OperandOf>
  [[nodiscard]] std::span<summand const> in_rank_order(std::size_t k,
                                                       std::span<transfer const> senders,
                                                       std::size_t first, std::span<summand> list,
                                                       OperandOf operand_of) const {
    auto const piece = senders.front().what();
    auto own = summand{};
    if (holds(piece.chunk)) own.partial = partial(k, piece).data + first * types.partial_bytes;
    auto count = std::size_t{0};
    for (std::size_t i = 0; i < senders.size(); ++i) {
      if (own.partial != nullptr && me < senders[i].destination)
        list[count++] = std::exchange(own, summand{});
      list[count++] = operand_of(i);
    }
    if (own.partial != nullptr) list[count++] = own;
    return list.first(count);
  }

  /// Sums what this rank owns and nobody else holds.
  void sum_unshared(communicator_ref const& comm) const {
    for (auto const expert : plan.held(me))
      for (auto const slice : first_n<slice_id>(plan.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (!owns(chunk) || std::ranges::binary_search(plan.shared(me), chunk)) continue;
        for (std::size_t k = 0; k < partials.size(); ++k)
          for (int piece = 0; piece < plan.pieces(); ++piece) {
            auto const own = summand{.partial = partial(k, {chunk, piece}).data};
            sum_on(comm, types.to_gradients, {&own, 1}, gradient(k, {chunk, piece}), scale, into);
          }
      }
  }
};

}  // namespace fssdp::detail
