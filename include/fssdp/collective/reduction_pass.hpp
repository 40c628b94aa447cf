// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a reduction: the plan's rounds backwards, a sum after each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/collective/accumulate.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

/// What the scratch of a reduction is made of.
struct reduction_scratch {
  std::size_t summand_bytes;  ///< for the operands of one sum
  std::size_t sums;           ///< slots for what the rank passes on
  std::size_t received;       ///< slots for what arrives in one round, unless it is borrowed

  reduction_scratch(transfer_plan const& plan, rank_id rank, std::size_t summand_size)
      : sums{plan.forwarded(rank).size()}, received{0} {
    for (int round = 0; round < plan.rounds(); ++round)
      received = std::max(received, plan.sends(rank, round).size());
    summand_bytes = (received + 1) * summand_size;
  }
  [[nodiscard]] std::size_t bytes(std::size_t slot, bool borrows) const {
    auto const slots = sums + (borrows ? 0 : received);
    return add_bytes(padded(summand_bytes), byte_count(slots, slot, 1));
  }
};

template <class Partials, class Gradients>
class reduction_pass {
  using T = std::remove_const_t<std::remove_pointer_t<decltype(Partials{}[0].data)>>;
  using sum_type = accumulator_t<T>;

 public:
  reduction_pass(transfer_plan const& plan, rank_id me, Partials partials, Gradients gradients,
                 double scale, output into)
      : plan_{plan},
        me_{me},
        partials_{partials},
        gradients_{gradients},
        scale_{static_cast<sum_type>(scale)},
        into_{into} {}

  template <class Lane>
  void run(Lane& lane, scratch_memory& scratch) {
    constexpr auto borrows = lending_communicator<Lane>;
    divide(scratch, borrows);
    for (int round = plan_.rounds() - 1; round >= 0; --round) {
      if constexpr (borrows) {
        lane.lend(
            [&](auto& batch) {
              send(batch, round);
              for_each_operand(round, [&](std::size_t bytes, rank_id from, std::size_t) {
                batch.borrow(bytes, from);
              });
            },
            [&](std::span<std::span<std::byte const> const> lent) {
              sum(round, [&](std::size_t operand) { return lent[operand].data(); });
              if (round == 0) finish_unshared();  // while others still read what this rank lends
            });
      } else {
        lane.exchange([&](auto& batch) {
          send(batch, round);
          for_each_operand(round, [&](std::size_t bytes, rank_id from, std::size_t operand) {
            batch.recv(std::span{received(operand), bytes}, from);
          });
        });
        sum(round, [&](std::size_t operand) { return received(operand); });
      }
    }
    if (!borrows || plan_.rounds() == 0) finish_unshared();
  }

 private:
  /// Where the sum of tensor k begins in a slot; with their number for k, the size of a slot.
  [[nodiscard]] std::size_t sum_offset(std::size_t k) const {
    return slot_offset(k, [this](std::size_t j) {
      return slice_elements(partials_[j].elements, plan_.slices()) * sizeof(sum_type);
    });
  }

  /// Cuts the scratch: summands, sums to pass on, and what is received in one round.
  void divide(scratch_memory& scratch, bool borrows) {
    auto const parts = reduction_scratch{plan_, me_, sizeof(summand<T>)};
    auto const slot = sum_offset(partials_.size());
    auto const memory = scratch.reserve(parts.bytes(slot, borrows));
    auto const summands = padded(parts.summand_bytes);
    auto const sums = parts.sums * slot;
    summands_ = {reinterpret_cast<summand<T>*>(memory.data()),
                 parts.summand_bytes / sizeof(summand<T>)};
    std::uninitialized_default_construct(summands_.begin(), summands_.end());
    sums_ = memory.data() + summands;
    received_ = sums_ + sums;
  }

  [[nodiscard]] slice_extent extent(std::size_t k, chunk_id chunk) const {
    return {partials_[k].elements, chunk.slice, plan_.slices()};
  }
  [[nodiscard]] std::span<T const> partial(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = extent(k, chunk);
    auto const slot = transfer_plan::slot_in(plan_.held(me_), chunk.expert);
    return partials_[k][slot].subspan(first, elements);
  }
  [[nodiscard]] std::span<sum_type> sum_of(std::size_t k, chunk_id chunk) const {
    auto const slot = transfer_plan::slot_in(plan_.forwarded(me_), chunk);
    auto* data = sums_ + slot * sum_offset(partials_.size()) + sum_offset(k);
    return {reinterpret_cast<sum_type*>(data), extent(k, chunk).elements};
  }
  /// Operand i of a round is tensor i % tensors of the i / tensors-th chunk that arrives.
  [[nodiscard]] std::byte* received(std::size_t operand) const {
    auto const tensors = partials_.size();
    return received_ + operand / tensors * sum_offset(tensors) + sum_offset(operand % tensors);
  }
  [[nodiscard]] bool forwards(rank_id rank, chunk_id chunk) const {
    return std::ranges::binary_search(plan_.forwarded(rank), chunk);
  }

  template <class Batch>
  void send(Batch& batch, int round) const {
    set_label(batch, {plan_.hash_value(), 2 * plan_.rounds() - 1 - round});
    for (auto const& t : plan_.receives(me_, round))
      for (std::size_t k = 0; k < partials_.size(); ++k)
        batch.send(forwards(me_, t.chunk) ? std::as_bytes(sum_of(k, t.chunk))
                                          : std::as_bytes(partial(k, t.chunk)),
                   t.source);
  }

  template <class Function>
  void for_each_operand(int round, Function function) const {
    auto operand = std::size_t{0};
    for (auto const& t : plan_.sends(me_, round)) {
      auto const size = forwards(t.destination, t.chunk) ? sizeof(sum_type) : sizeof(T);
      for (std::size_t k = 0; k < partials_.size(); ++k)
        function(extent(k, t.chunk).elements * size, t.destination, operand++);
    }
  }

  /// Sums each chunk of a round over those who sent it and this rank, in rank order.
  template <class Bytes>
  void sum(int round, Bytes bytes) const {
    auto const senders = plan_.sends(me_, round);
    for (std::size_t first = 0, last = 0; first < senders.size(); first = last) {
      auto const chunk = senders[first].chunk;
      while (last < senders.size() && senders[last].chunk == chunk) ++last;
      for (std::size_t k = 0; k < partials_.size(); ++k) {
        auto count = std::size_t{0};
        auto own = own_summand(k, chunk);
        for (auto i = first; i < last; ++i) {
          auto const from = senders[i].destination;
          if (own.partial != nullptr && me_ < from)
            summands_[count++] = std::exchange(own, summand<T>{});
          auto const* data = bytes(i * partials_.size() + k);
          summands_[count++] = forwards(from, chunk)
                                   ? summand<T>{.summed = reinterpret_cast<sum_type const*>(data)}
                                   : summand<T>{.partial = reinterpret_cast<T const*>(data)};
        }
        if (own.partial != nullptr) summands_[count++] = own;
        deliver(k, chunk, summands_.first(count));
      }
    }
  }

  /// This rank's own partial; none if it owns a slice of an expert that it does not hold.
  [[nodiscard]] summand<T> own_summand(std::size_t k, chunk_id chunk) const {
    if (!plan_.where().holds(me_, chunk.expert)) return {};
    return {.partial = partial(k, chunk).data()};
  }

  /// What this rank owns and nobody else holds.
  void finish_unshared() const {
    for (auto const expert : plan_.held(me_))
      for (auto const slice : first_n<slice_id>(plan_.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (plan_.owner(chunk) != me_ || std::ranges::binary_search(plan_.shared(me_), chunk))
          continue;
        for (std::size_t k = 0; k < partials_.size(); ++k) {
          summands_.front() = own_summand(k, chunk);
          deliver(k, chunk, summands_.first(1));
        }
      }
  }

  void deliver(std::size_t k, chunk_id chunk, std::span<summand<T> const> summands) const {
    if (plan_.owner(chunk) == me_)
      accumulate(summands, gradients_[k][plan_.owner_slot(chunk)].first(extent(k, chunk).elements),
                 scale_, into_);
    else
      accumulate(summands, sum_of(k, chunk));
  }

  transfer_plan const& plan_;
  rank_id me_;
  Partials partials_;
  Gradients gradients_;
  sum_type scale_;
  output into_;
  std::span<summand<T>> summands_;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace detail
}  // namespace fssdp
