// SPDX-License-Identifier: Apache-2.0
/// Finds the ranks of a communicator that are still there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Ranks come to a call, which is closed when all have come that can, or at the deadline. Ranks
/// that have not come by then are lost for good. The caller must lock it.
class roll_call {
 public:
  explicit roll_call(std::size_t ranks) : has_come_(ranks), is_lost_(ranks) {}

  /// @return the number of the call that it comes to
  std::uint64_t come(rank_id rank) {
    has_come_[rank.index()] = true;
    return closed_;
  }
  [[nodiscard]] bool is_open(std::uint64_t call) const { return closed_ == call; }
  /// Whether the call has no more ranks to wait for.
  /// @param is_gone(rank) whether the rank will never come
  template <class IsGone>
  [[nodiscard]] bool is_complete(IsGone is_gone) const {
    for (std::size_t rank = 0; rank < has_come_.size(); ++rank)
      if (!has_come_[rank] && !is_lost_[rank] && !is_gone(rank_id{rank})) return false;
    return true;
  }
  void close() {
    for (std::size_t rank = 0; rank < has_come_.size(); ++rank)
      if (!has_come_[rank]) is_lost_[rank] = true;
    has_come_.assign(has_come_.size(), false);
    ++closed_;
  }
  void leave_out(std::vector<rank_id> const& lost) {
    for (auto const rank : lost) is_lost_[rank.index()] = true;
  }
  [[nodiscard]] bool is_lost(rank_id rank) const { return is_lost_[rank.index()]; }
  /// All lost ranks, ascending.
  [[nodiscard]] std::vector<rank_id> lost() const {
    auto ranks = std::vector<rank_id>{};
    for (std::size_t rank = 0; rank < is_lost_.size(); ++rank)
      if (is_lost_[rank]) ranks.emplace_back(rank);
    return ranks;
  }

 private:
  std::vector<bool> has_come_;  // [ranks]: to the open call
  std::vector<bool> is_lost_;   // [ranks]
  std::uint64_t closed_ = 0;    // number of closed calls
};

}  // namespace fssdp::detail
