// SPDX-License-Identifier: Apache-2.0
/// Who of the ranks of a communicator is still there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Ranks come to a call, which is closed when all have come that can, or when it is too late. Who
/// has not come by then is lost for good. Whoever uses it locks it.
class roll_call {
 public:
  explicit roll_call(std::size_t ranks) : has_come_(ranks), is_lost_(ranks) {}

  /// @return which call it comes to
  std::uint64_t come(rank_id rank) {
    has_come_[rank.index()] = true;
    return closed_;
  }
  [[nodiscard]] bool is_open(std::uint64_t call) const { return closed_ == call; }
  /// Whether nobody is awaited any more.
  /// @param is_gone(rank) whether it will never come
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
  /// All that are lost, ascending.
  [[nodiscard]] std::vector<rank_id> lost() const {
    auto ranks = std::vector<rank_id>{};
    for (std::size_t rank = 0; rank < is_lost_.size(); ++rank)
      if (is_lost_[rank]) ranks.emplace_back(rank);
    return ranks;
  }

 private:
  std::vector<bool> has_come_;  // [rank]: to the call that is open
  std::vector<bool> is_lost_;   // [rank]
  std::uint64_t closed_ = 0;    // calls
};

}  // namespace fssdp::detail
