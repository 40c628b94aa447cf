// SPDX-License-Identifier: Apache-2.0
/// Ranks that have met, and may meet again without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// A circle of ranks (meeting_room) that meet in turns: all come, then all are prepared, then the
/// turn ends and the next one begins. One word counts them, so that each step is one atomic
/// operation, and those that wait read one cache line.
///
/// As long as each rank has the same peers as in the last turn, the circle is the same. A rank that
/// has other peers closes it: no rank can come any more, and a turn that is not complete is given
/// up. Its ranks then meet in the room, where the last one to come opens a circle again.
class alignas(64) known_circle {
 public:
  enum class coming { waits, complete, closed };

  /// The ranks that meet here. To be changed only before `open`.
  [[nodiscard]] std::vector<rank_id>& ranks() { return ranks_; }

  /// Begins a turn to which all ranks have come already.
  /// @pre none of them is in a turn here
  /// @return the number of the turn
  std::uint64_t open() {
    auto const turn = turn_of(word_) + 1;
    word_ = word(turn, 0, ranks_.size());
    return turn;
  }
  /// No rank can come any more. A turn that is complete goes on.
  void close() { word_ |= closed; }
  /// Comes to a turn.
  /// @return whether that is possible: the circle is open, and the turn is this one
  [[nodiscard]] bool come(std::uint64_t turn) {
    auto now = word_.load();
    do
      if (turn_of(now) != turn || (now & closed) != 0) return false;
    while (!word_.compare_exchange_weak(now, now - one_missing));
    return true;
  }
  /// For a rank that has come to a turn.
  [[nodiscard]] coming how_far(std::uint64_t turn) const {
    auto const now = word_.load();
    if (turn_of(now) != turn) return coming::closed;  // and opened for a turn of others
    if (missing(now) == 0) return coming::complete;
    return (now & closed) != 0 ? coming::closed : coming::waits;
  }
  /// Counts a rank that is prepared.
  /// @return whether it is the last
  [[nodiscard]] bool note_prepared() { return unprepared(word_.fetch_sub(one_unprepared)) == 1; }
  [[nodiscard]] bool all_prepared() const { return unprepared(word_) == 0; }
  /// Ends the turn, when all are prepared.
  void end() {
    auto now = word_.load();
    while (!word_.compare_exchange_weak(
        now, word(turn_of(now) + 1, ranks_.size(), ranks_.size()) | (now & closed))) {
    }
  }
  [[nodiscard]] bool has_ended(std::uint64_t turn) const { return turn_of(word_) != turn; }

 private:
  // From low to high: 16 bits count unprepared ranks, 16 those that have not come, one says whether
  // the circle is closed, the others number the turn.
  static constexpr std::uint64_t one_unprepared = 1;
  static constexpr std::uint64_t one_missing = std::uint64_t{1} << 16U;
  static constexpr std::uint64_t closed = std::uint64_t{1} << 32U;

  static std::uint64_t word(std::uint64_t turn, std::size_t missing, std::size_t unprepared) {
    return turn << 33U | missing * one_missing | unprepared;
  }
  static std::uint64_t unprepared(std::uint64_t of) { return of % one_missing; }
  static std::uint64_t missing(std::uint64_t of) { return of % closed / one_missing; }
  static std::uint64_t turn_of(std::uint64_t of) { return of >> 33U; }

  std::atomic<std::uint64_t> word_ = closed;
  std::vector<rank_id> ranks_;
};

}  // namespace fssdp::detail
