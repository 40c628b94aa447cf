// SPDX-License-Identifier: Apache-2.0
/// Which ranks wait for which others to meet.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// A set of ranks of a communicator, as bits, so that it occupies few cache lines.
class rank_set {
 public:
  explicit rank_set(std::size_t ranks) : words_((ranks + word_bits - 1) / word_bits) {}

  [[nodiscard]] bool contains(rank_id rank) const {
    return (words_[word_of(rank)] & bit_of(rank)) != 0;
  }
  void insert(rank_id rank) { words_[word_of(rank)] |= bit_of(rank); }
  void erase(rank_id rank) { words_[word_of(rank)] &= ~bit_of(rank); }
  void clear() { std::ranges::fill(words_, 0); }
  bool operator==(rank_set const&) const = default;

  /// Calls visit(rank) for the ranks, in order, until it returns false.
  template <class Visit>
  void for_each(Visit visit) const {
    for_each_in([&](std::size_t w) { return words_[w]; }, visit);
  }
  /// The same for those that are not in another set.
  template <class Visit>
  void for_each_but(rank_set const& other, Visit visit) const {
    for_each_in([&](std::size_t w) { return words_[w] & ~other.words_[w]; }, visit);
  }

 private:
  static constexpr std::size_t word_bits = 64;
  template <class Word, class Visit>
  void for_each_in(Word word, Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (auto left = word(w); left != 0; left &= left - 1)
        if (!visit(rank_id{w * word_bits + static_cast<std::size_t>(std::countr_zero(left))}))
          return;
  }
  static std::size_t word_of(rank_id rank) { return rank.index() / word_bits; }
  static std::uint64_t bit_of(rank_id rank) { return std::uint64_t{1} << rank.index() % word_bits; }

  std::vector<std::uint64_t> words_;
};

/// The ranks that have come to a meeting of the communicator (meeting_guest), and wait for others.
class meeting_room {
 public:
  explicit meeting_room(std::size_t ranks)
      : waiting_{ranks}, names_(ranks, rank_set{ranks}), sequences_(ranks), seen_{ranks} {}

  /// A rank comes, with the peers of its messages, in its exchange number `sequence`.
  void enter(rank_id rank, rank_set const& names, std::uint64_t sequence) {
    waiting_.insert(rank);
    names_[rank.index()] = names;
    sequences_[rank.index()] = sequence;
  }
  void leave(rank_id rank) { waiting_.erase(rank); }
  /// The peers that it has named when it last came. They do not change while it is at a meeting.
  [[nodiscard]] rank_set const& named_by(rank_id rank) const { return names_[rank.index()]; }

  /// Collects the ranks that are connected by messages with one that has come, directly or through
  /// others, all in the same exchange. A rank in another exchange has not come yet, unless it names
  /// a rank of this circle: then they disagree.
  /// @return the first that has not come; `rank` if all have
  [[nodiscard]] rank_id find_circle(rank_id rank, std::vector<rank_id>& circle) {
    circle.assign(1, rank);
    seen_.clear();
    seen_.insert(rank);
    auto missing = rank;
    for (std::size_t i = 0; i < circle.size() && missing == rank; ++i) {
      auto const at = circle[i];
      named_by(at).for_each_but(seen_, [&](rank_id peer) {
        auto const is_here =
            waiting_.contains(peer) &&
            (sequences_[peer.index()] == sequences_[at.index()] || named_by(peer).contains(at));
        if (!is_here) {
          missing = peer;
          return false;
        }
        seen_.insert(peer);
        circle.push_back(peer);
        return true;
      });
    }
    return missing;
  }

 private:
  rank_set waiting_;
  std::vector<rank_set> names_;           // [ranks]
  std::vector<std::uint64_t> sequences_;  // [ranks]
  rank_set seen_;
};

}  // namespace fssdp::detail
