// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a reduction: the plan backwards, a sum wherever pieces meet.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/reduction_arrivals.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Moves what the plan says, backwards. The memory knows where operands are: `outgoing(k, t)` is
/// what this rank sends back for a transfer, `operand_bytes(k, t)` the size of what comes back for
/// one, `received(i)` where operand i of a round is received; `sum_piece(k, senders, bytes)` sums a
/// piece that is complete, `sum_unshared()` what nobody sends back.
template <class Memory>
class reduction_pass {
 public:
  reduction_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  template <class Lane>
  void run(Lane& lane, scratch_memory& scratch) {
    constexpr auto borrows = lending_communicator<Lane>;
    auto* const arrivals = divide(scratch, borrows);
    if constexpr (forwarding_communicator<Lane>) {
      if (plan_.rounds() > 1) {
        forward(lane, {plan_, me_, memory_.tensors(), arrivals});
        memory_.sum_unshared();
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
              if (round == 0)
                memory_.sum_unshared();  // while others still read what this rank lends
            });
      } else {
        lane.exchange([&](auto& batch) {
          send(batch, round);
          for_each_operand(round, [&](std::size_t bytes, rank_id from, std::size_t operand) {
            batch.recv(std::span{memory_.received(operand), bytes}, from);
          });
        });
        sum(round, [&](std::size_t operand) { return memory_.received(operand); });
      }
    }
    if (!borrows || plan_.rounds() == 0) memory_.sum_unshared();
  }

 private:
  /// Cuts the scratch: what has arrived, then what the memory needs. Returns the former.
  [[nodiscard]] std::byte* divide(scratch_memory& scratch, bool borrows) {
    auto const arrivals = reduction_arrivals::bytes(plan_, me_, memory_.tensors());
    auto* const memory = scratch.reserve(add_bytes(arrivals, memory_.bytes(borrows))).data();
    memory_.begin(memory + arrivals, borrows);
    return memory;
  }

  /// Everything at once: a piece is summed as soon as all that is to be added is there. Messages
  /// are named, and sent, in the reversed order of the gather.
  template <class Lane>
  void forward(Lane& lane, reduction_arrivals state) {
    auto const tensors = memory_.tensors();
    auto const out = plan_.sends(me_);
    auto const in = plan_.receives(me_);
    auto order = state.sending();
    lane.forward(
        [&](auto& batch) {
          set_label(batch, {memory_.label(), 2 * plan_.rounds() + 1});
          auto at_once = std::size_t{0};  // messages before the first sum
          for (auto i = in.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k) {
              auto const message = (in.size() - 1 - i) * tensors + k;
              if (!memory_.is_sum(in[i])) order.set_ready(message);
              order.advance([&](std::size_t) { ++at_once; });
              if (message < at_once)
                batch.send(memory_.outgoing(k, in[i]), in[i].source);
              else
                batch.hold(memory_.outgoing(k, in[i]), in[i].source);
            }
          for (auto i = out.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k)
              batch.borrow(memory_.operand_bytes(k, out[i]), out[i].destination);
        },
        [&](std::size_t wanted, std::span<std::byte const> bytes, auto& gate) {
          auto const k = wanted % tensors;
          auto const& t = out[out.size() - 1 - wanted / tensors];
          auto const piece = state.note(t, k, bytes.data());
          if (piece.senders.empty()) return;
          memory_.sum_piece(k, piece.senders, piece);
          if (plan_.owner(t.chunk) == me_) return;
          order.set_ready((in.size() - 1 - piece.receive) * tensors + k);
          order.advance([&](std::size_t message) { gate.release(message); });
        });
  }

  template <class Batch>
  void send(Batch& batch, int round) const {
    set_label(batch, {memory_.label(), 2 * plan_.rounds() - 1 - round});
    for (auto const& t : plan_.receives(me_, round))
      for (std::size_t k = 0; k < memory_.tensors(); ++k)
        batch.send(memory_.outgoing(k, t), t.source);
  }
  template <class Function>
  void for_each_operand(int round, Function function) const {
    auto operand = std::size_t{0};
    for (auto const& t : plan_.sends(me_, round))
      for (std::size_t k = 0; k < memory_.tensors(); ++k)
        function(memory_.operand_bytes(k, t), t.destination, operand++);
  }

  /// Sums each piece of a round.
  template <class Bytes>
  void sum(int round, Bytes bytes) {
    auto const tensors = memory_.tensors();
    auto const senders = plan_.sends(me_, round);
    for (std::size_t first = 0, last = 0; first < senders.size(); first = last) {
      while (last < senders.size() && senders[last].what() == senders[first].what()) ++last;
      for (std::size_t k = 0; k < tensors; ++k)
        memory_.sum_piece(k, senders.subspan(first, last - first),
                          [&](std::size_t i) { return bytes((first + i) * tensors + k); });
    }
  }

  transfer_plan const& plan_;
  rank_id me_;
  Memory memory_;
};

}  // namespace fssdp::detail
