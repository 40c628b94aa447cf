// SPDX-License-Identifier: Apache-2.0
/// Where the pieces of a reduction lie on one rank, and how they are summed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The largest number of transfers of one round that bring operands to a rank.
[[nodiscard]] inline std::size_t most_operands(transfer_plan const& plan, rank_id rank) {
  auto most = std::size_t{0};
  for (int round = 0; round < plan.rounds(); ++round)
    most = std::max(most, plan.sends(rank, round).size());
  return most;
}

/// What a reduction reads and writes on one rank, piece by piece.
struct reduction_buffers {
  transfer_plan const& plan;
  rank_id me;
  std::span<tensor_view const> partials;
  std::span<tensor_view const> gradients;
  find_sum find;  ///< from types of `partials` to those of `gradients`, or to accumulator_of them
  double scale;
  write_mode into;
  piece_extents extents{plan, tensor_sizes{partials}};

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  /// Whether a rank sends back a sum of several partials instead of its own partial.
  [[nodiscard]] bool forwards(rank_id rank, piece_id piece) const {
    return std::ranges::binary_search(plan.forwarded(rank), piece);
  }

  /// How tensor k is summed at its owner; to_sums: by a rank that passes the sum on.
  [[nodiscard]] element_sum to_gradients(std::size_t k) const {
    return find(partials[k].type, gradients[k].type);
  }
  [[nodiscard]] element_sum to_sums(std::size_t k) const {
    return find(partials[k].type, accumulator_of(partials[k].type));
  }
  [[nodiscard]] element_sizes sum_sizes() const { return element_sizes::of_sums(partials); }

  [[nodiscard]] element_range partial(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(plan.materialized(me), piece.chunk.expert);
    return extents.cut_expert(partials[k][slot], k, piece);
  }
  [[nodiscard]] element_range gradient(std::size_t k, piece_id piece) const {
    return extents.cut_slice(gradients[k][plan.owner_slot(piece.chunk)], k, piece);
  }

  /// The bytes that come back for a transfer: a partial, or a sum if the receiver has relayed the
  /// piece.
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    auto const is_sum = forwards(t.destination, t.what());
    return extents.elements(k, t.what()) * (is_sum ? sum_sizes()[k] : partials[k].element_bytes);
  }
  /// Such an operand, beginning with its element `first`.
  [[nodiscard]] summand received(std::size_t k, transfer const& t, std::byte const* data,
                                 std::size_t first) const {
    if (forwards(t.destination, t.what())) return {.summed = data + first * sum_sizes()[k]};
    return {.partial = data + first * partials[k].element_bytes};
  }

  /// Visits the summands of a piece in rank order, beginning with its element `first`: what the
  /// receivers of the piece send back, and this rank's own partial if it holds the expert.
  /// @param sent(i) is called for senders[i], own(summand) for this rank's partial
  template <class Sent, class Own>
  void in_rank_order(std::size_t k, std::span<transfer const> senders, std::size_t first, Sent sent,
                     Own own) const {
    auto const piece = senders.front().what();
    auto mine = summand{};
    if (holds(piece.chunk)) mine.partial = partial(k, piece).part(first, 0).data;
    for (std::size_t i = 0; i < senders.size(); ++i) {
      if (mine.partial != nullptr && me < senders[i].destination)
        own(std::exchange(mine, summand{}));
      sent(i);
    }
    if (mine.partial != nullptr) own(mine);
  }
  /// Lists these summands; operand_of(i) is the one from senders[i].
  /// @return the used beginning of `list`
  template <class OperandOf>
  [[nodiscard]] std::span<summand const> in_rank_order(std::size_t k,
                                                       std::span<transfer const> senders,
                                                       std::size_t first, std::span<summand> list,
                                                       OperandOf operand_of) const {
    auto count = std::size_t{0};
    in_rank_order(
        k, senders, first, [&](std::size_t i) { list[count++] = operand_of(i); },
        [&](summand const& own) { list[count++] = own; });
    return list.first(count);
  }

  /// The rules for sums of tensor k: of its gradients, and of sums that are passed on.
  [[nodiscard]] sum_rule to_owner(std::size_t k) const { return {to_gradients(k), scale, into}; }
  [[nodiscard]] sum_rule to_pass_on(std::size_t k) const { return {to_sums(k)}; }

  /// Sums the chunks that this rank owns and no other rank holds: their only summand is its
  /// partial.
  void sum_unshared(sum_batch& sums) const {
    for (auto const expert : plan.materialized(me))
      for (auto const slice : first_n<slice_id>(plan.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (!owns(chunk) || std::ranges::binary_search(plan.shared(me), chunk)) continue;
        for (std::size_t k = 0; k < partials.size(); ++k)
          for (int piece = 0; piece < plan.pieces(); ++piece) {
            auto const own = summand{.partial = partial(k, {chunk, piece}).data};
            sums.add(to_owner(k), {&own, 1}, gradient(k, {chunk, piece}));
          }
      }
  }
};

/// The scratch of a reduction on one rank.
class reduction_scratch {
 public:
  reduction_scratch(transfer_plan const& plan, rank_id rank, piece_extents const& extents,
                    element_sizes sum_sizes)
      : received_{most_operands(plan, rank)},
        sums_{plan.forwarded(rank).size()},
        extents_{extents},
        sum_sizes_{sum_sizes} {}

  /// The largest number of operands of one sum.
  [[nodiscard]] std::size_t summands() const { return received_ + 1; }
  /// For the sums that the rank passes on.
  [[nodiscard]] auto sums() const { return element_slots(sums_, extents_, sum_sizes_); }
  /// For what is received in one round, unless peers' memory is read in place.
  [[nodiscard]] auto received() const { return element_slots(received_, extents_, sum_sizes_); }
  /// The size of the list of summands of one sum.
  [[nodiscard]] std::size_t list_bytes() const {
    return byte_count(summands(), sizeof(summand), 1);
  }
  [[nodiscard]] std::size_t data_bytes(bool borrows) const {
    return add_bytes(sums().bytes(), borrows ? 0 : received().bytes());
  }
  [[nodiscard]] std::size_t bytes(bool borrows) const {
    return add_bytes(list_bytes(), data_bytes(borrows));
  }

 private:
  std::size_t received_;
  std::size_t sums_;
  piece_extents extents_;
  element_sizes sum_sizes_;
};

/// Partials are sent and read in place; sums that are passed on are in the scratch.
class reduction_memory {
 public:
  explicit reduction_memory(reduction_buffers const& of)
      : of_{of}, parts_{of.plan, of.me, of.extents, of.sum_sizes()} {}

  [[nodiscard]] std::size_t tensors() const { return of_.partials.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return of_.plan.hash_value(); }
  [[nodiscard]] std::size_t list_bytes() const { return parts_.list_bytes(); }
  [[nodiscard]] std::size_t data_bytes(bool borrows) const { return parts_.data_bytes(borrows); }

  void begin(communicator_ref const&, std::byte* lists, std::byte* data, bool borrows) {
    summands_ = memory_cutter{lists}.items<summand>(parts_.summands());
    auto memory = memory_cutter{data};
    sums_ = memory.bytes(parts_.sums().bytes());
    if (!borrows) received_ = memory.bytes(parts_.received().bytes());
  }

  /// What this rank sends back for a transfer that it received.
  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, transfer const& t) const {
    return (is_sum(t) ? sum_of(k, t.what()) : of_.partial(k, t.what())).bytes();
  }
  [[nodiscard]] bool is_sum(transfer const& t) const {
    return of_.forwards(t.destination, t.what());
  }
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    return of_.operand_bytes(k, t);
  }
  [[nodiscard]] std::byte* received(std::size_t k, std::size_t slot) const {
    return received_ + parts_.received().offset(k, slot);
  }

  /// Sums a piece over the ranks that send it back and this rank; bytes(i) is from senders[i].
  void sum_piece(sum_batch& sums, std::size_t k, std::span<transfer const> senders,
                 function_ref<std::byte const*(std::size_t)> bytes) const {
    auto const piece = senders.front().what();
    auto const summands = of_.in_rank_order(k, senders, 0, summands_, [&](std::size_t i) {
      return of_.received(k, senders[i], bytes(i), 0);
    });
    if (of_.owns(piece.chunk))
      sums.add(of_.to_owner(k), summands, of_.gradient(k, piece));
    else
      sums.add(of_.to_pass_on(k), summands, sum_of(k, piece));
  }
  void sum_unshared(sum_batch& sums) const { of_.sum_unshared(sums); }

 private:
  [[nodiscard]] element_range sum_of(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(of_.plan.forwarded(of_.me), piece);
    return {sums_ + parts_.sums().offset(k, slot), of_.extents.elements(k, piece),
            of_.sum_sizes()[k]};
  }

  reduction_buffers of_;
  reduction_scratch parts_;
  std::span<summand> summands_;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace fssdp::detail
