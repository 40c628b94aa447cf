// SPDX-License-Identifier: Apache-2.0
/// What a reduction reads and writes on one rank, piece by piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/collective/accumulate.hpp"
#include "fssdp/collective/lane_work.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// How many transfers bring operands to a rank in one round, at most.
[[nodiscard]] inline std::size_t most_operands(transfer_plan const& plan, rank_id rank) {
  auto most = std::size_t{0};
  for (int round = 0; round < plan.rounds(); ++round)
    most = std::max(most, plan.sends(rank, round).size());
  return most;
}

template <class Partials, class Gradients>
struct reduction_buffers {
  using partial_type = std::remove_const_t<std::remove_pointer_t<decltype(Partials{}[0].data)>>;
  using gradient_type = std::remove_pointer_t<decltype(Gradients{}[0].data)>;
  using sum_type = accumulator_t<partial_type>;
  using operand = summand<partial_type>;

  transfer_plan const& plan;
  rank_id me;
  Partials partials;
  Gradients gradients;
  sum_type scale;
  output into;
  piece_extents<Partials> extents{plan, partials};

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  /// Whether a rank sends back a sum of several instead of its partial.
  [[nodiscard]] bool forwards(rank_id rank, piece_id piece) const {
    return std::ranges::binary_search(plan.forwarded(rank), piece);
  }

  [[nodiscard]] std::span<partial_type const> partial(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(plan.held(me), piece.chunk.expert);
    return extents.cut_expert(std::span<partial_type const>{partials[k][slot]}, k, piece);
  }
  [[nodiscard]] std::span<gradient_type> gradient(std::size_t k, piece_id piece) const {
    return extents.cut_slice(gradients[k][plan.owner_slot(piece.chunk)], k, piece);
  }

  /// What comes back for a transfer, as it is: a partial, or a sum if its receiver has passed the
  /// piece on.
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    auto const size = forwards(t.destination, t.what()) ? sizeof(sum_type) : sizeof(partial_type);
    return extents.elements(k, t.what()) * size;
  }
  /// Such an operand from its element `first` on.
  [[nodiscard]] operand received(transfer const& t, std::byte const* data,
                                 std::size_t first) const {
    if (forwards(t.destination, t.what()))
      return {.summed = reinterpret_cast<sum_type const*>(data) + first};
    return {.partial = reinterpret_cast<partial_type const*>(data) + first};
  }

  /// Lists what is summed for a piece, from its element `first` on, in rank order: what those send
  /// back who got it, operand_of(i) for senders[i], and this rank's own partial, if it has one.
  /// @return the beginning of `list` that is used
  template <class OperandOf>
  [[nodiscard]] std::span<operand const> in_rank_order(std::size_t k,
                                                       std::span<transfer const> senders,
                                                       std::size_t first, std::span<operand> list,
                                                       OperandOf operand_of) const {
    auto const piece = senders.front().what();
    auto own = operand{};
    if (holds(piece.chunk)) own.partial = partial(k, piece).data() + first;
    auto count = std::size_t{0};
    for (std::size_t i = 0; i < senders.size(); ++i) {
      if (own.partial != nullptr && me < senders[i].destination)
        list[count++] = std::exchange(own, operand{});
      list[count++] = operand_of(i);
    }
    if (own.partial != nullptr) list[count++] = own;
    return list.first(count);
  }

  /// Sums what this rank owns and nobody else holds.
  template <class Lane>
  void sum_unshared(Lane& lane) const {
    for (auto const expert : plan.held(me))
      for (auto const slice : first_n<slice_id>(plan.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (!owns(chunk) || std::ranges::binary_search(plan.shared(me), chunk)) continue;
        for (std::size_t k = 0; k < partials.size(); ++k)
          for (int piece = 0; piece < plan.pieces(); ++piece) {
            auto const own = operand{.partial = partial(k, {chunk, piece}).data()};
            sum_on(lane, std::span{&own, 1}, gradient(k, {chunk, piece}), scale, into);
          }
      }
  }
};
template <class Partials, class Gradients, class Sum>
reduction_buffers(transfer_plan const&, rank_id, Partials, Gradients, Sum, output)
    -> reduction_buffers<Partials, Gradients>;

}  // namespace fssdp::detail
