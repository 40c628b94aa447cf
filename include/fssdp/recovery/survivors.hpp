// SPDX-License-Identifier: Apache-2.0
/// The remaining ranks of a communicator, and the communicator between them.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// The ranks of a communicator, all of them at first. When some are lost, the others continue with
/// a communicator between them. Their original numbers are kept, however often that happens.
template <survivable_communicator Comm>
class survivors {
 public:
  /// All ranks.
  /// @param comm outlives this
  explicit survivors(Comm& comm) : comm_{&comm} {
    for (auto const rank : first_n<rank_id>(comm.size())) ranks_.push_back(rank);
    size_ = comm.size();
  }
  survivors(survivors const&) = delete;
  survivors& operator=(survivors const&) = delete;

  /// The communicator between the remaining ranks.
  [[nodiscard]] Comm& comm() { return left_.has_value() ? *left_ : *comm_; }
  /// [ranks of comm()]: the original numbers of these ranks, ascending.
  [[nodiscard]] std::span<rank_id const> ranks() const { return ranks_; }
  /// The original ranks that are lost, ascending.
  [[nodiscard]] std::vector<rank_id> lost() const { return detail::ranks_left(ranks_, size_); }

  /// To be called after a failure: removes the lost ranks. All remaining ranks call it. Afterwards
  /// comm() is a new communicator, between all ranks if they have all come.
  /// @throws peer_failed if this rank itself is lost: the others have stopped waiting;
  ///         argument_error if the back end does not support it
  void shrink() {
    auto const lost = comm().find_lost();
    auto smaller = comm().without(lost);
    auto const left = detail::ranks_left(lost, static_cast<int>(ranks_.size()));
    auto ranks = std::vector<rank_id>{};
    for (auto const rank : left) ranks.push_back(ranks_[rank.index()]);
    left_.emplace(std::move(smaller));
    ranks_ = std::move(ranks);
  }

 private:
  Comm* comm_;
  std::optional<Comm> left_;
  std::vector<rank_id> ranks_;
  int size_ = 0;
};

}  // namespace fssdp
