// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a gather: who gets what when.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/round_messages.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Moves what the plan says. The memory knows where the bytes of a piece are: `begin(lane,
/// scratch)` makes ready what this rank owns, `outgoing(k, piece)` and `incoming(k, piece)` name tensor k of
/// a piece, `arrived(k, piece)` is told when it is there. Consecutive pieces of a chunk that
/// `fills_slots` lie one behind the other.
template <class Memory>
class gather_pass {
 public:
  gather_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  template <class Lane>
  void run(Lane& lane, pass_scratch<Lane>& scratch) {
    memory_.begin(lane, scratch);
    agree(lane, memory_.label());
    if constexpr (forwarding_communicator<Lane>) {
      if (plan_.rounds() > 1) return forward(lane);
    }
    for (int round = 0; round < plan_.rounds(); ++round) {
      lane.exchange([&](exchange_batch auto& batch) { name(batch, round); });
      for (auto const& t : plan_.receives(me_, round))
        for (std::size_t k = 0; k < memory_.tensors(); ++k) memory_.arrived(k, t.what());
    }
  }

 private:
  /// The messages of a round.
  template <class Batch>
  void name(Batch& batch, int round) const {
    set_label(batch, {memory_.label(), round});
    auto const alike = [this](transfer const& a, transfer const&) {
      return memory_.fills_slots(a.chunk);
    };
    round_messages{plan_.sends(me_, round), alike}.for_each([&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) {
        auto const piece = [&](transfer const& t) { return memory_.outgoing(k, t.what()); };
        batch.send(message.joined(piece), message.front().destination);
      }
    });
    round_messages{plan_.receives(me_, round), alike}.for_each([&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) {
        auto const piece = [&](transfer const& t) { return memory_.incoming(k, t.what()); };
        batch.recv(message.joined(piece), message.front().source);
      }
    });
  }

  /// Everything at once: a piece goes on as soon as it is there.
  template <class Lane>
  void forward(Lane& lane) {
    auto const tensors = memory_.tensors();
    auto const in = plan_.receives(me_);
    lane.forward(
        [&](auto& batch) {
          set_label(batch, {memory_.label(), 2 * plan_.rounds()});
          for (auto const& t : plan_.sends(me_))
            for (std::size_t k = 0; k < tensors; ++k)
              if (plan_.owner(t.chunk) == me_)
                batch.send(memory_.outgoing(k, t.what()), t.destination);
              else
                batch.hold(memory_.outgoing(k, t.what()), t.destination);
          for (auto const& t : in)
            for (std::size_t k = 0; k < tensors; ++k)
              batch.recv(memory_.incoming(k, t.what()), t.source);
        },
        [&](std::size_t wanted, std::span<std::byte const>, auto& gate) {
          auto const k = wanted % tensors;
          for (auto const follower : plan_.followers(me_, wanted / tensors))
            gate.release(static_cast<std::size_t>(follower) * tensors + k);
          memory_.arrived(k, in[wanted / tensors].what());
        });
  }

  transfer_plan const& plan_;
  rank_id me_;
  Memory memory_;
};

}  // namespace fssdp::detail
