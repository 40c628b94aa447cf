// SPDX-License-Identifier: Apache-2.0
/// How a reduction runs on one rank: the rounds of the plan in reverse order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/collective/round_messages.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Where the operands of a round are: tensor k of what is sent back for a transfer.
class round_operands {
 public:
  [[nodiscard]] static std::size_t bytes(transfer_plan const& plan, rank_id rank,
                                         std::size_t tensors) {
    return byte_count(most_operands(plan, rank), tensors, sizeof(std::byte const*));
  }
  round_operands(transfer_plan const& plan, rank_id rank, std::size_t tensors, std::byte* scratch)
      : tensors_{tensors},
        where_{
            memory_cutter{scratch}.items<std::byte const*>(most_operands(plan, rank) * tensors)} {}

  /// @param transfer the index among the rank's sends in that round of the gather
  [[nodiscard]] std::byte const*& operator()(std::size_t k, std::size_t transfer) {
    return where_[transfer * tensors_ + k];
  }

 private:
  std::size_t tensors_;
  std::span<std::byte const*> where_;
};

/// Sends in the order of the plan. A message that is ready early must wait for its turn: otherwise
/// it would occupy the port while other ranks wait for a message that should go first. Messages
/// inside a node and messages between nodes use different ports, and do not wait for each other.
class send_order {
 public:
  /// @param messages memory for one number per message
  explicit send_order(std::span<std::uint8_t> messages) : messages_{messages} {
    std::ranges::fill(messages_, std::uint8_t{0});
  }

  /// Marks a message as one inside the node; to be called before the first `advance`.
  void set_inside(std::size_t message) { set(message, inside); }
  void set_ready(std::size_t message) { set(message, ready); }
  /// Marks a message that is sent before anything is summed.
  void set_gone(std::size_t message) { set(message, gone); }
  [[nodiscard]] bool has_gone(std::size_t message) const {
    return (messages_[message] & gone) != 0;
  }
  /// Calls go(message) for every message that may be sent now: it is ready, and all earlier ones of
  /// its port have been sent.
  template <class Go>
  void advance(Go go) {
    for (auto const is_inside : {false, true})
      for (auto& next = next_[is_inside ? 1 : 0]; next < messages_.size(); ++next) {
        auto const message = messages_[next];
        if (((message & inside) != 0) != is_inside) continue;
        if ((message & ready) == 0) break;
        go(next);
      }
  }

 private:
  void set(std::size_t message, std::uint8_t flag) {
    messages_[message] = static_cast<std::uint8_t>(messages_[message] | flag);
  }

  static constexpr std::uint8_t inside = 1;
  static constexpr std::uint8_t ready = 2;
  static constexpr std::uint8_t gone = 4;

  std::span<std::uint8_t> messages_;
  std::array<std::size_t, 2> next_ = {};  // of each port
};

/// Collects the operands of all sums: each transfer that this rank sends in a gather comes back as
/// one. Sorted by piece, then by peer.
class reduction_arrivals {
 public:
  /// All operands of one tensor of a piece.
  struct complete {
    std::span<transfer const> senders;           ///< empty while operands are missing
    std::span<std::byte const* const> operands;  ///< that of sender i is at i * stride
    std::size_t stride;
    std::size_t receive;  ///< the index of the receive that brought this piece in a gather
    [[nodiscard]] std::byte const* operator()(std::size_t sender) const {
      return operands[sender * stride];
    }
  };

  [[nodiscard]] static std::size_t bytes(transfer_plan const& plan, rank_id rank,
                                         std::size_t tensors) {
    auto const sends = plan.batched_sends(rank).size();
    auto const pieces = add_bytes(byte_count(sends, tensors, sizeof(std::byte const*)),
                                  add_bytes(byte_count(sends, tensors, sizeof(std::uint32_t)),
                                            2 * byte_count(sends, sizeof(std::uint32_t), 1)));
    return add_bytes(pieces, byte_count(plan.receives(rank).size(), tensors, 1));
  }

  reduction_arrivals(transfer_plan const& plan, rank_id me, std::size_t tensors, std::byte* scratch)
      : plan_{plan}, me_{me}, tensors_{tensors}, sends_{plan.batched_sends(me)} {
    auto memory = memory_cutter{scratch};
    operands_ = memory.items<std::byte const*>(sends_.size() * tensors);
    missing_ = memory.items<std::uint32_t>(sends_.size() * tensors);
    first_ = memory.items<std::uint32_t>(sends_.size());
    receive_ = memory.items<std::uint32_t>(sends_.size());
    ready_ = memory.items<std::uint8_t>(plan.receives(me).size() * tensors);
    for (std::size_t b = 0, first = 0; b < sends_.size(); ++b) {
      if (sends_[b].what() != sends_[first].what()) first = b;
      first_[b] = static_cast<std::uint32_t>(first);
      for (std::size_t k = 0; k < tensors; ++k) ++missing_[first * tensors + k];
    }
    for (std::size_t i = 0; i < plan.receives(me).size(); ++i)
      for (auto const follower : plan.followers(me, i))
        receive_[find(plan.sends(me)[static_cast<std::size_t>(follower)])] =
            static_cast<std::uint32_t>(i);
  }

  /// Notes the operand that was received for tensor k of a transfer.
  /// @return the operands of the piece if this was the last one
  [[nodiscard]] complete note(transfer const& t, std::size_t k, std::byte const* operand) {
    auto const b = find(t);
    auto const first = std::size_t{first_[b]};
    operands_[b * tensors_ + k] = operand;
    if (--missing_[first * tensors_ + k] != 0) return {};
    auto last = b + 1;
    while (last < sends_.size() && first_[last] == first) ++last;
    return {sends_.subspan(first, last - first), operands_.subspan(first * tensors_ + k), tensors_,
            receive_[b]};
  }

  /// The order in which this rank sends back: one message for each receive and tensor.
  [[nodiscard]] send_order sending() const { return send_order{ready_}; }

 private:
  /// The index of a transfer in the order by piece.
  [[nodiscard]] std::size_t find(transfer const& t) const {
    auto const round = plan_.sends(me_, t.round);
    return static_cast<std::size_t>(
        std::lower_bound(round.data(), round.data() + round.size(), t, before_in_round) -
        sends_.data());
  }

  transfer_plan const& plan_;
  rank_id me_;
  std::size_t tensors_;
  std::span<transfer const> sends_;
  std::span<std::byte const*> operands_;  // [sends, tensors]
  std::span<std::uint32_t> missing_;      // [sends, tensors]: of a piece, at its first send
  std::span<std::uint32_t> first_;        // [sends]: the first send of the same piece
  std::span<std::uint32_t> receive_;      // [sends]: which receive brought the piece
  std::span<std::uint8_t> ready_;         // [receives, tensors]
};

/// The bytes of the lists of operands: of one round, or of all rounds where a plan has several, as
/// messages may then be passed on while others are still received.
[[nodiscard]] inline std::size_t reduction_lists(transfer_plan const& plan, rank_id rank,
                                                 std::size_t tensors) {
  return plan.rounds() <= 1 ? round_operands::bytes(plan, rank, tensors)
                            : reduction_arrivals::bytes(plan, rank, tensors);
}

/// Runs the transfers of the plan backwards. The memory knows where operands are: `outgoing(k, t)`
/// is what this rank sends back for a transfer; `operand_bytes(k, t)` the size of what comes back
/// for one, `is_sum(t)` whether that is a sum, `received(k, slot)` where it is received.
/// `sum_piece(sums, k, senders, bytes)` sums a piece whose operands are complete,
/// `sum_unshared(sums)` sums what only this rank holds. Consecutive pieces of a chunk that
/// `fills_slots` are contiguous, and so are their sums.
template <class Memory>
class reduction_pass {
 public:
  reduction_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  void run(communicator_ref const& comm, pass_scratch& scratch) {
    if (!comm.in_host_memory()) check_summands();
    auto const borrows = comm.lends();
    auto* const lists = divide(comm, scratch, borrows);
    comm.agree(memory_.label());
    if (comm.forwards() && plan_.rounds() > 1) {
      forward(comm, {plan_, me_, memory_.tensors(), lists});
      sum_unshared(comm);
      return;
    }
    auto operands = round_operands{plan_, me_, memory_.tensors(), lists};
    for (int round = plan_.rounds() - 1; round >= 0; --round)
      if (borrows)
        lend(comm, round, operands);
      else
        exchange(comm, round, operands);
    if (!borrows || plan_.rounds() == 0) sum_unshared(comm);
  }

 private:
  /// @throws argument_error if a piece has more operands than a device can sum in one launch
  void check_summands() const {
    auto most = std::size_t{0};
    for (int round = 0; round < plan_.rounds(); ++round) {
      auto const senders = plan_.sends(me_, round);
      for (std::size_t first = 0, last = 0; first < senders.size(); first = last) {
        while (last < senders.size() && senders[last].what() == senders[first].what()) ++last;
        most = std::max(most, last - first + 1);
      }
    }
    require(most <= device_sums::most_operands, "sparse_reduce_scatter: ", most,
            " operands of a sum on a device; expected at most ", device_sums::most_operands);
  }
  /// Divides the scratch: the lists of operands, which it returns, then what the memory needs.
  [[nodiscard]] std::byte* divide(communicator_ref const& comm, pass_scratch& scratch,
                                  bool borrows) {
    auto const lists = reduction_lists(plan_, me_, memory_.tensors());
    auto const parts =
        scratch.cut(add_bytes(lists, memory_.list_bytes()), memory_.data_bytes(borrows));
    memory_.begin(comm, parts.lists + lists, parts.data, borrows);
    return parts.lists;
  }

  /// One round in which peers' operands are read in place.
  void lend(communicator_ref const& comm, int round, round_operands& operands) const {
    comm.exchange_lending(
        [&](batch_ref const& batch) { send(batch, round), borrow(batch, round); },
        [&](std::span<std::span<std::byte const> const> lent) {
          locate(round, lent, operands);
          form_sums(comm, [&](sum_batch& sums) {
            sum(sums, round, operands);
            if (round == 0)
              memory_.sum_unshared(sums);  // while peers still read this rank's memory
          });
        });
  }
  /// One round in which operands are received in the scratch.
  void exchange(communicator_ref const& comm, int round, round_operands& operands) const {
    comm.exchange(
        [&](batch_ref const& batch) { send(batch, round), receive(batch, round, operands); });
    form_sums(comm, [&](sum_batch& sums) { sum(sums, round, operands); });
  }

  /// All rounds in one exchange: a piece is summed as soon as all its operands are there. Messages
  /// are added, and sent, in the reverse order of the gather.
  void forward(communicator_ref const& comm, reduction_arrivals state) const {
    auto const tensors = memory_.tensors();
    auto const out = plan_.sends(me_);
    auto const in = plan_.receives(me_);
    auto order = state.sending();
    comm.exchange_forwarding(
        [&](batch_ref const& batch) {
          batch.label({memory_.label(), 2 * plan_.rounds() + 1});
          auto const number = [&](std::size_t i, std::size_t k) {
            return (in.size() - 1 - i) * tensors + k;
          };
          for (std::size_t i = 0; i < in.size(); ++i)
            for (std::size_t k = 0; k < tensors; ++k) {
              if (plan_.topology().same_node(me_, in[i].source)) order.set_inside(number(i, k));
              if (!memory_.is_sum(in[i])) order.set_ready(number(i, k));
            }
          order.advance([&](std::size_t message) { order.set_gone(message); });
          for (auto i = in.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k)
              if (order.has_gone(number(i, k)))
                batch.send(memory_.outgoing(k, in[i]), in[i].source);
              else
                batch.hold(memory_.outgoing(k, in[i]), in[i].source);
          for (auto i = out.size(); i-- != 0;)
            for (std::size_t k = 0; k < tensors; ++k)
              batch.borrow(memory_.operand_bytes(k, out[i]), out[i].destination);
        },
        [&](std::size_t wanted, std::span<std::byte const> bytes, gate_ref const& gate) {
          auto const k = wanted % tensors;
          auto const& t = out[out.size() - 1 - wanted / tensors];
          auto const piece = state.note(t, k, bytes.data());
          if (piece.senders.empty()) return;
          form_sums(comm,
                    [&](sum_batch& sums) { memory_.sum_piece(sums, k, piece.senders, piece); });
          if (plan_.owner(t.chunk) == me_) return;
          order.set_ready((in.size() - 1 - piece.receive) * tensors + k);
          order.advance([&](std::size_t message) { gate.release(message); });
        });
  }

  /// Calls visit(message) for each message of a round; sums and partials are in separate messages.
  template <class Visit>
  void for_each_message(std::span<transfer const> transfers, Visit visit) const {
    auto const alike = [this](transfer const& a, transfer const& b) {
      return memory_.fills_slots(a.chunk) && memory_.is_sum(a) == memory_.is_sum(b);
    };
    round_messages{transfers, alike}.for_each(visit);
  }
  /// Calls visit(message, k) for each message that comes back, tensor by tensor.
  template <class Visit>
  void for_each_back(int round, Visit visit) const {
    for_each_message(plan_.sends(me_, round), [&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) visit(message, k);
    });
  }
  template <class Message>
  [[nodiscard]] std::size_t bytes_back(Message const& message, std::size_t k) const {
    auto sum = std::size_t{0};
    for (auto const& t : message) sum += memory_.operand_bytes(k, t);
    return sum;
  }

  void send(batch_ref const& batch, int round) const {
    batch.label({memory_.label(), 2 * plan_.rounds() - 1 - round});
    for_each_message(plan_.receives(me_, round), [&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) {
        auto const piece = [&](transfer const& t) { return memory_.outgoing(k, t); };
        batch.send(message.joined(piece), message.front().source);
      }
    });
  }
  void borrow(batch_ref const& batch, int round) const {
    for_each_back(round, [&](auto const& message, std::size_t k) {
      batch.borrow(bytes_back(message, k), message.front().destination);
    });
  }
  void receive(batch_ref const& batch, int round, round_operands& operands) const {
    auto slot = std::size_t{0};
    for_each_back(round, [&](auto const& message, std::size_t k) {
      auto const bytes = std::span{memory_.received(k, slot), bytes_back(message, k)};
      batch.recv(bytes, message.front().destination);
      locate(message, k, bytes.data(), round, operands);
      if (k + 1 == memory_.tensors()) slot += message.size();
    });
  }
  /// Notes where the operands are that are read in place.
  void locate(int round, std::span<std::span<std::byte const> const> lent,
              round_operands& operands) const {
    auto next = lent.begin();
    for_each_back(round, [&](auto const& message, std::size_t k) {
      locate(message, k, (next++)->data(), round, operands);
    });
  }
  template <class Message>
  void locate(Message const& message, std::size_t k, std::byte const* at, int round,
              round_operands& operands) const {
    auto const* const first = plan_.sends(me_, round).data();
    for (auto const& t : message) {
      operands(k, static_cast<std::size_t>(&t - first)) = at;
      at += memory_.operand_bytes(k, t);
    }
  }

  void sum_unshared(communicator_ref const& comm) const {
    form_sums(comm, [&](sum_batch& sums) { memory_.sum_unshared(sums); });
  }
  /// Sums each piece of a round.
  void sum(sum_batch& sums, int round, round_operands& operands) const {
    auto const senders = plan_.sends(me_, round);
    for (std::size_t first = 0, last = 0; first < senders.size(); first = last) {
      while (last < senders.size() && senders[last].what() == senders[first].what()) ++last;
      for (std::size_t k = 0; k < memory_.tensors(); ++k)
        memory_.sum_piece(sums, k, senders.subspan(first, last - first),
                          [&](std::size_t i) { return operands(k, first + i); });
    }
  }

  transfer_plan const& plan_;
  rank_id me_;
  Memory memory_;
};

}  // namespace fssdp::detail
