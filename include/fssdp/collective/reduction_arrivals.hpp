// SPDX-License-Identifier: Apache-2.0
/// What has arrived in a reduction whose pieces are summed as soon as they are complete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/send_order.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Knows all that a rank sends in a gather, by piece, then by peer: each comes back as an operand.
class reduction_arrivals {
 public:
  /// The operands of one tensor of a piece, when all of them are there.
  struct complete {
    std::span<transfer const> senders;           ///< empty: some are missing
    std::span<std::byte const* const> operands;  ///< of the first sender from 0, others by stride
    std::size_t stride;
    std::size_t receive;  ///< which of its receives brought the piece to this rank in a gather
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

  /// Notes the operand that has come back for tensor k of a transfer.
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

  /// The order of what this rank sends back: a message for each receive and tensor.
  [[nodiscard]] send_order sending() const { return send_order{ready_}; }

 private:
  /// Where a transfer is among those that are sorted by piece.
  [[nodiscard]] std::size_t find(transfer const& t) const {
    auto const key = [](transfer const& other) {
      return std::pair{other.what(), other.destination};
    };
    auto const round = plan_.sends(me_, t.round);
    return static_cast<std::size_t>(&*std::ranges::lower_bound(round, key(t), {}, key) -
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

}  // namespace fssdp::detail
