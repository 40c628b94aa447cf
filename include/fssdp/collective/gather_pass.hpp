// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a gather: who gets what when.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/round_messages.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Moves what the plan says. The memory knows where the bytes of a piece are: `begin(comm, scratch)`
/// makes ready what this rank owns, `outgoing(k, piece)` and `incoming(k, piece)` name tensor k of a
/// piece, `arrived(k, piece)` is told when it is there. Consecutive pieces of a chunk that
/// `fills_slots` lie one behind the other.
template <class Memory>
class gather_pass {
 public:
  gather_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  void run(communicator_ref const& comm, pass_scratch& scratch) {
    memory_.begin(comm, scratch);
    comm.agree(memory_.label());
    if (comm.forwards() && plan_.rounds() > 1) return forward(comm);
    for (int round = 0; round < plan_.rounds(); ++round) {
      comm.exchange([&](batch_ref const& batch) { name(batch, round); });
      for (auto const& t : plan_.receives(me_, round))
        for (std::size_t k = 0; k < memory_.tensors(); ++k) memory_.arrived(k, t.what());
    }
  }

 private:
  /// The messages of a round.
  void name(batch_ref const& batch, int round) const {
    batch.label({memory_.label(), round});
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
  void forward(communicator_ref const& comm) {
    auto const tensors = memory_.tensors();
    auto const in = plan_.receives(me_);
    comm.forward(
        [&](batch_ref const& batch) {
          batch.label({memory_.label(), 2 * plan_.rounds()});
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
        [&](std::size_t wanted, std::span<std::byte const>, gate_ref const& gate) {
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
