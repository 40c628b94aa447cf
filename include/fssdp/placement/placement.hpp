// SPDX-License-Identifier: Apache-2.0
/// Who holds which experts.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// The ranks that hold one expert, ascending: a view into a placement.
class holder_range {
 public:
  class iterator {
   public:
    using value_type = rank_id;
    using difference_type = std::ptrdiff_t;
    iterator() = default;
    iterator(std::span<std::uint64_t const> words, int at) : words_{words}, at_{at} { settle(); }
    rank_id operator*() const { return rank_id{at_}; }
    iterator& operator++() {
      ++at_;
      settle();
      return *this;
    }
    iterator operator++(int) {
      auto const before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(iterator const& a, iterator const& b) { return a.at_ == b.at_; }

   private:
    void settle() {  // moves on to the next bit that is set, or to the end
      auto word = static_cast<std::size_t>(at_) / 64;
      if (word >= words_.size()) return;
      auto bits = words_[word] >> (static_cast<unsigned>(at_) % 64);
      if (bits != 0) {
        at_ += std::countr_zero(bits);
        return;
      }
      while (++word < words_.size() && words_[word] == 0) {
      }
      at_ = static_cast<int>(word * 64);
      if (word < words_.size()) at_ += std::countr_zero(words_[word]);
    }
    std::span<std::uint64_t const> words_;
    int at_ = 0;
  };

  explicit holder_range(std::span<std::uint64_t const> words) : words_{words} {}
  [[nodiscard]] iterator begin() const { return {words_, 0}; }
  [[nodiscard]] iterator end() const { return {words_, static_cast<int>(words_.size() * 64)}; }
  [[nodiscard]] std::size_t size() const {
    auto count = std::size_t{0};
    for (auto const word : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }

 private:
  std::span<std::uint64_t const> words_;
};

/// A set of (expert, rank) pairs: which ranks compute with which experts. Every expert is held by
/// its owner (the owner of its first slice, if it is sliced) and by the ranks that `add` names. A
/// rank that holds an expert holds all of it. A regular value.
class placement {
 public:
  placement() = default;

  /// Every expert at its owner only.
  /// @throws argument_error if there is no expert or no rank, or an owner that is not a rank
  template <shard_layout Layout>
  explicit placement(Layout const& layout) {
    reset(layout);
  }

  /// Sets this placement to that of a layout, and reuses its memory.
  template <shard_layout Layout>
  void reset(Layout const& layout) {
    clear(layout.experts(), layout.ranks());
    for (auto const expert : first_n<expert_id>(experts_)) add(expert, layout.owner(expert));
  }

  /// Adds a copy of `expert` on `rank`; nothing changes if there is one.
  /// @throws argument_error if expert or rank do not exist
  void add(expert_id expert, rank_id rank);

  /// Removes the copy of `expert` on `rank`; nothing changes if there is none. Owners must keep
  /// their experts, which check_contains checks.
  /// @pre expert and rank exist
  void remove(expert_id expert, rank_id rank) {
    bits_[expert.index() * words_ + rank.index() / 64] &= ~(std::uint64_t{1} << rank.index() % 64);
  }

  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] bool holds(rank_id rank, expert_id expert) const {
    return (bits_[expert.index() * words_ + rank.index() / 64] >> rank.index() % 64 & 1U) != 0;
  }
  /// The ranks that hold an expert, ascending.
  [[nodiscard]] holder_range holders(expert_id expert) const {
    return holder_range{{bits_.data() + expert.index() * words_, words_}};
  }
  /// The number of experts that a rank holds.
  [[nodiscard]] int held_count(rank_id rank) const;

  friend bool operator==(placement const&, placement const&) = default;

 private:
  /// Sets the numbers of experts and ranks; no rank holds any expert.
  /// @throws argument_error if a number is below 1
  void clear(int experts, int ranks);

  int experts_ = 0;
  int ranks_ = 0;
  std::size_t words_ = 0;  // per expert: one bit for each rank
  std::vector<std::uint64_t> bits_;
};

namespace detail {

/// @throws argument_error unless the placement has the experts and ranks of the layout
void check_sizes(placement const& where, int experts, int ranks);
/// @throws argument_error unless the owner is a rank and holds the expert
void check_holds(placement const& where, expert_id expert, rank_id owner);

}  // namespace detail

/// Rejects a placement that was not made for this layout.
/// @throws argument_error if the sizes differ or an expert's owner does not hold it
template <shard_layout Layout>
void check_contains(placement const& where, Layout const& layout) {
  detail::check_sizes(where, layout.experts(), layout.ranks());
  for (auto const expert : first_n<expert_id>(layout.experts()))
    detail::check_holds(where, expert, layout.owner(expert));
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/placement_inl.hpp"
#endif
