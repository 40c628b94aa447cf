// SPDX-License-Identifier: Apache-2.0
/// What comes back to a rank in one round of a reduction.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/reduction_buffers.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// Where each operand of a round is: tensor k of what is sent back for a transfer.
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

  /// @param transfer which of those that the rank sends in the gather's round
  [[nodiscard]] std::byte const*& operator()(std::size_t k, std::size_t transfer) {
    return where_[transfer * tensors_ + k];
  }

 private:
  std::size_t tensors_;
  std::span<std::byte const*> where_;
};

}  // namespace fssdp::detail
