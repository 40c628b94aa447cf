// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a reduction: the plan backwards, a sum wherever pieces meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  std::size_t arrival_bytes;  ///< for what has arrived, if pieces are passed on
  std::size_t sums;           ///< slots for what the rank passes on
  std::size_t received;       ///< slots for what arrives in one round, unless it is borrowed

  reduction_scratch(transfer_plan const& plan, rank_id rank, std::size_t tensors,
                    std::size_t summand_size)
      : sums{plan.forwarded(rank).size()}, received{0} {
    for (int round = 0; round < plan.rounds(); ++round)
      received = std::max(received, plan.sends(rank, round).size());
    summand_bytes = (received + 1) * summand_size;
    auto const arrivals = plan.rounds() > 1 ? plan.batched_sends(rank).size() : 0;
    arrival_bytes = byte_count(arrivals,
                               tensors * sizeof(std::byte const*) + 2 * sizeof(std::uint32_t) +
                                   tensors * sizeof(std::uint32_t),
                               1);
  }
  [[nodiscard]] std::size_t bytes(std::size_t slot, bool borrows) const {
    auto const slots = sums + (borrows ? 0 : received);
    return add_bytes(add_bytes(padded(summand_bytes), arrival_bytes), byte_count(slots, slot, 1));
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
    if constexpr (forwarding_communicator<Lane>) {
      if (plan_.rounds() > 1) {
        forward(lane);
        finish_unshared();
        return;
      }
    }
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
      auto const slice = slice_elements(partials_[j].elements, plan_.slices());
      return piece_elements(slice, plan_.pieces()) * sizeof(sum_type);
    });
  }

  /// Cuts the scratch: summands, sums to pass on, and what is received in one round.
  void divide(scratch_memory& scratch, bool borrows) {
    auto const parts = reduction_scratch{plan_, me_, partials_.size(), sizeof(summand<T>)};
    auto const slot = sum_offset(partials_.size());
    auto const memory = scratch.reserve(parts.bytes(slot, borrows));
    auto const summands = padded(parts.summand_bytes);
    auto const sums = parts.sums * slot;
    summands_ = {reinterpret_cast<summand<T>*>(memory.data()),
                 parts.summand_bytes / sizeof(summand<T>)};
    std::uninitialized_default_construct(summands_.begin(), summands_.end());
    arrivals_ = memory.data() + summands;
    sums_ = arrivals_ + parts.arrival_bytes;
    received_ = sums_ + sums;
  }

  /// What has arrived of all that a rank sends in a gather: by piece, then by peer.
  struct arrivals {
    std::span<std::byte const*> operands;  // [sends, tensors]
    std::span<std::uint32_t> missing;      // [sends, tensors]: of a piece, at its first send
    std::span<std::uint32_t> first;        // [sends]: the first send of the same piece
    std::span<std::uint32_t> receive;      // [sends]: which receive brought the piece

    arrivals(std::byte* memory, std::size_t sends, std::size_t tensors) {
      operands = cut<std::byte const*>(memory, sends * tensors);
      missing = cut<std::uint32_t>(memory, sends * tensors);
      first = cut<std::uint32_t>(memory, sends);
      receive = cut<std::uint32_t>(memory, sends);
    }

   private:
    template <class Item>
    static std::span<Item> cut(std::byte*& memory, std::size_t count) {
      auto const items = std::span{reinterpret_cast<Item*>(memory), count};
      std::uninitialized_value_construct(items.begin(), items.end());
      memory += count * sizeof(Item);
      return items;
    }
  };

  /// Everything at once: a piece is summed as soon as all that is to be added is there. Messages are
  /// named in the reversed order of the gather.
  template <class Lane>
  void forward(Lane& lane) {
    auto const tensors = partials_.size();
    auto const out = plan_.sends(me_);
    auto const in = plan_.receives(me_);
    auto const batched = plan_.batched_sends(me_);
    auto const at = [&](transfer const& t) {  // where a send is among the batched ones
      auto const round = plan_.sends(me_, t.round);
      auto const found = std::ranges::lower_bound(
          round, std::pair{t.what(), t.destination}, {}, [](transfer const& other) {
            return std::pair{other.what(), other.destination};
          });
      return static_cast<std::size_t>(&*found - batched.data());
    };
    auto state = arrivals{arrivals_, out.size(), tensors};
    for (std::size_t b = 0, first = 0; b < batched.size(); ++b) {
      if (batched[b].what() != batched[first].what()) first = b;
      state.first[b] = static_cast<std::uint32_t>(first);
      for (std::size_t k = 0; k < tensors; ++k) ++state.missing[first * tensors + k];
    }
    for (std::size_t i = 0; i < in.size(); ++i)
      for (auto const follower : plan_.followers(me_, i))
        state.receive[at(out[static_cast<std::size_t>(follower)])] = static_cast<std::uint32_t>(i);

    lane.forward(
        [&](auto& batch) {
          set_label(batch, {plan_.hash_value(), 2 * plan_.rounds() + 1});
          for (auto i = in.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k)
              if (forwards(me_, in[i].what()))
                batch.hold(std::as_bytes(sum_of(k, in[i].what())), in[i].source);
              else
                batch.send(std::as_bytes(partial(k, in[i].what())), in[i].source);
          for (auto i = out.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k)
              batch.borrow(operand_bytes(k, out[i]), out[i].destination);
        },
        [&](std::size_t wanted, std::span<std::byte const> bytes, auto& gate) {
          auto const k = wanted % tensors;
          auto const b = at(out[out.size() - 1 - wanted / tensors]);
          auto const first = std::size_t{state.first[b]};
          state.operands[b * tensors + k] = bytes.data();
          if (--state.missing[first * tensors + k] != 0) return;
          auto last = first;
          while (last < batched.size() && state.first[last] == first) ++last;
          sum_piece(k, batched.subspan(first, last - first),
                    [&](std::size_t i) { return state.operands[(first + i) * tensors + k]; });
          if (plan_.owner(batched[b].chunk) != me_)
            gate.release((in.size() - 1 - state.receive[b]) * tensors + k);
        });
  }

  [[nodiscard]] slice_extent slice(std::size_t k, chunk_id chunk) const {
    return {partials_[k].elements, chunk.slice, plan_.slices()};
  }
  /// A piece within its slice.
  [[nodiscard]] piece_extent extent(std::size_t k, piece_id piece) const {
    return {slice(k, piece.chunk).elements, piece.index, plan_.pieces()};
  }
  [[nodiscard]] std::span<T const> partial(std::size_t k, piece_id piece) const {
    auto const [first, elements] = extent(k, piece);
    auto const slot = transfer_plan::slot_in(plan_.held(me_), piece.chunk.expert);
    return partials_[k][slot].subspan(slice(k, piece.chunk).first + first, elements);
  }
  [[nodiscard]] std::span<sum_type> sum_of(std::size_t k, piece_id piece) const {
    auto const slot = transfer_plan::slot_in(plan_.forwarded(me_), piece);
    auto* data = sums_ + slot * sum_offset(partials_.size()) + sum_offset(k);
    return {reinterpret_cast<sum_type*>(data), extent(k, piece).elements};
  }
  /// Operand i of a round is tensor i % tensors of the i / tensors-th chunk that arrives.
  [[nodiscard]] std::byte* received(std::size_t operand) const {
    auto const tensors = partials_.size();
    return received_ + operand / tensors * sum_offset(tensors) + sum_offset(operand % tensors);
  }
  [[nodiscard]] bool forwards(rank_id rank, piece_id piece) const {
    return std::ranges::binary_search(plan_.forwarded(rank), piece);
  }

  template <class Batch>
  void send(Batch& batch, int round) const {
    set_label(batch, {plan_.hash_value(), 2 * plan_.rounds() - 1 - round});
    for (auto const& t : plan_.receives(me_, round))
      for (std::size_t k = 0; k < partials_.size(); ++k)
        batch.send(forwards(me_, t.what()) ? std::as_bytes(sum_of(k, t.what()))
                                           : std::as_bytes(partial(k, t.what())),
                   t.source);
  }

  template <class Function>
  void for_each_operand(int round, Function function) const {
    auto operand = std::size_t{0};
    for (auto const& t : plan_.sends(me_, round)) {
      for (std::size_t k = 0; k < partials_.size(); ++k)
        function(operand_bytes(k, t), t.destination, operand++);
    }
  }

  /// What comes back for a transfer: a partial, or a sum if its receiver has passed the piece on.
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    auto const size = forwards(t.destination, t.what()) ? sizeof(sum_type) : sizeof(T);
    return extent(k, t.what()).elements * size;
  }

  /// Sums each piece of a round.
  template <class Bytes>
  void sum(int round, Bytes bytes) const {
    auto const senders = plan_.sends(me_, round);
    for (std::size_t first = 0, last = 0; first < senders.size(); first = last) {
      while (last < senders.size() && senders[last].what() == senders[first].what()) ++last;
      for (std::size_t k = 0; k < partials_.size(); ++k)
        sum_piece(k, senders.subspan(first, last - first),
                  [&](std::size_t i) { return bytes((first + i) * partials_.size() + k); });
    }
  }
  /// Sums a piece over those who send it back and this rank, in rank order.
  template <class Bytes>
  void sum_piece(std::size_t k, std::span<transfer const> senders, Bytes bytes) const {
    auto const piece = senders.front().what();
    auto count = std::size_t{0};
    auto own = own_summand(k, piece);
    for (std::size_t i = 0; i < senders.size(); ++i) {
      auto const from = senders[i].destination;
      if (own.partial != nullptr && me_ < from)
        summands_[count++] = std::exchange(own, summand<T>{});
      auto const* data = bytes(i);
      summands_[count++] = forwards(from, piece)
                               ? summand<T>{.summed = reinterpret_cast<sum_type const*>(data)}
                               : summand<T>{.partial = reinterpret_cast<T const*>(data)};
    }
    if (own.partial != nullptr) summands_[count++] = own;
    deliver(k, piece, summands_.first(count));
  }

  /// This rank's own partial; none if it does not hold the expert.
  [[nodiscard]] summand<T> own_summand(std::size_t k, piece_id piece) const {
    if (!plan_.where().holds(me_, piece.chunk.expert)) return {};
    return {.partial = partial(k, piece).data()};
  }

  /// What this rank owns and nobody else holds.
  void finish_unshared() const {
    for (auto const expert : plan_.held(me_))
      for (auto const slice : first_n<slice_id>(plan_.slices())) {
        auto const chunk = chunk_id{expert, slice};
        if (plan_.owner(chunk) != me_ || std::ranges::binary_search(plan_.shared(me_), chunk))
          continue;
        for (std::size_t k = 0; k < partials_.size(); ++k)
          for (int piece = 0; piece < plan_.pieces(); ++piece) {
            summands_.front() = own_summand(k, {chunk, piece});
            deliver(k, {chunk, piece}, summands_.first(1));
          }
      }
  }

  void deliver(std::size_t k, piece_id piece, std::span<summand<T> const> summands) const {
    auto const [first, elements] = extent(k, piece);
    if (plan_.owner(piece.chunk) == me_)
      accumulate(summands, gradients_[k][plan_.owner_slot(piece.chunk)].subspan(first, elements),
                 scale_, into_);
    else
      accumulate(summands, sum_of(k, piece));
  }

  transfer_plan const& plan_;
  rank_id me_;
  Partials partials_;
  Gradients gradients_;
  sum_type scale_;
  output into_;
  std::span<summand<T>> summands_;
  std::byte* arrivals_ = nullptr;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace detail
}  // namespace fssdp
