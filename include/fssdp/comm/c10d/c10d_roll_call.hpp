// SPDX-License-Identifier: Apache-2.0
/// Finds the remaining ranks of a process group through a store, as the group itself cannot be
/// used.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The roll calls of a communicator, one after the other. All its ranks use the same names in the
/// store.
class c10d_roll_call {
 public:
  explicit c10d_roll_call(std::string name = "fssdp_lost") : name_{std::move(name)} {}

  /// The roll calls of the next duplicate, or of the communicator between the remaining ranks.
  [[nodiscard]] c10d_roll_call next() {
    return c10d_roll_call{name_ + "_" + std::to_string(++made_)};
  }

  /// Announces this rank, and waits for the others until the deadline: ranks that have not come
  /// then are lost.
  /// @return the lost ranks, ascending; the same on all that have come
  /// @throws peer_failed if the others have continued without this rank; transport_error if the
  ///         store cannot be reached
  [[nodiscard]] std::vector<rank_id> hold(c10d::Store& store, rank_id me, int size,
                                          std::chrono::milliseconds deadline) {
    auto const call = name_ + "/" + std::to_string(++held_);
    try {
      return lost_in(came(store, call, me, size, deadline), me);
    } catch (c10::Error const& error) {
      throw transport_error{
          rank_id{-1}, text("find_lost: rank ", me, " cannot reach the store: ", c10d_text(error))};
    }
  }

 private:
  using clock = std::chrono::steady_clock;
  using list = std::vector<std::uint8_t>;  // [ranks]: 1 for ranks that have come

  [[nodiscard]] static std::string key_of(std::string const& call, rank_id rank) {
    return call + "/" + std::to_string(rank.value());
  }
  /// The list of the first rank that has seen all, or has waited until the deadline.
  [[nodiscard]] static list came(c10d::Store& store, std::string const& call, rank_id me, int size,
                                 std::chrono::milliseconds deadline) {
    auto const decided = call + "/came";
    auto const until = clock::now() + deadline;
    auto pause = std::chrono::milliseconds{1};
    auto seen = list(static_cast<std::size_t>(size));
    store.set(key_of(call, me), list{1});
    while (!store.check({decided})) {
      for (auto const rank : first_n<rank_id>(size))
        if (seen[rank.index()] == 0 && store.check({key_of(call, rank)})) seen[rank.index()] = 1;
      if (std::ranges::find(seen, 0) == seen.end() || clock::now() >= until)
        return store.compareSet(decided, {}, seen);
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds{20});
    }
    return store.get(decided);
  }
  [[nodiscard]] static std::vector<rank_id> lost_in(list const& came, rank_id me) {
    if (came[me.index()] == 0)
      throw peer_failed{me,
                        text("rank ", me, " has been lost: the others have gone on without it")};
    auto lost = std::vector<rank_id>{};
    for (std::size_t rank = 0; rank < came.size(); ++rank)
      if (came[rank] == 0) lost.emplace_back(rank);
    return lost;
  }

  std::string name_;
  std::size_t made_ = 0;
  std::size_t held_ = 0;
};

}  // namespace fssdp::detail
