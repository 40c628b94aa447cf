// SPDX-License-Identifier: Apache-2.0
/// One rank's part in a gather: who gets what when.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Moves what the plan says. The memory knows where the bytes of a piece are: `begin(scratch)`
/// makes ready what this rank owns, `outgoing(k, piece)` and `incoming(k, piece)` name tensor k of
/// a piece, `arrived(k, piece)` is told when it is there.
template <class Memory>
class gather_pass {
 public:
  gather_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  template <class Lane>
  void run(Lane& lane, scratch_memory& scratch) {
    memory_.begin(scratch);
    if constexpr (forwarding_communicator<Lane>) {
      if (plan_.rounds() > 1) return forward(lane);
    }
    auto const tensors = memory_.tensors();
    for (int round = 0; round < plan_.rounds(); ++round) {
      auto const in = plan_.receives(me_, round);
      lane.exchange([&](auto& batch) {
        set_label(batch, {memory_.label(), round});
        for (auto const& t : plan_.sends(me_, round))
          for (std::size_t k = 0; k < tensors; ++k)
            batch.send(memory_.outgoing(k, t.what()), t.destination);
        for (auto const& t : in)
          for (std::size_t k = 0; k < tensors; ++k)
            batch.recv(memory_.incoming(k, t.what()), t.source);
      });
      for (auto const& t : in)
        for (std::size_t k = 0; k < tensors; ++k) memory_.arrived(k, t.what());
    }
  }

 private:
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
