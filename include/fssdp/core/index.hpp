// SPDX-License-Identifier: Apache-2.0
/// Index types: ranks, nodes, groups, layers, experts and slices have different types, so that they
/// cannot be confused.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>

namespace fssdp {

/// An index from 0 into things of one kind.
template <class Tag>
class strong_index {
 public:
  constexpr strong_index() = default;
  template <std::integral Integer>
  constexpr explicit strong_index(Integer value) : value_{static_cast<int>(value)} {}

  [[nodiscard]] constexpr int value() const { return value_; }
  /// The same number as a std::size_t.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  constexpr strong_index& operator++() {
    ++value_;
    return *this;
  }
  constexpr strong_index operator++(int) {
    auto const before = *this;
    ++value_;
    return before;
  }
  friend constexpr auto operator<=>(strong_index, strong_index) = default;

 private:
  int value_ = 0;
};

/// The kinds of indices. They do not convert to one another, nor to int: `value()` is the number as
/// an int, `index()` as a std::size_t.
using rank_id = strong_index<struct rank_tag>;
using node_id = strong_index<struct node_tag>;
using layer_id = strong_index<struct layer_tag>;
using expert_id = strong_index<struct expert_tag>;
using slice_id = strong_index<struct slice_tag>;
using group_id = strong_index<struct group_tag>;

/// The indices first, first + 1, ..., last - 1.
template <class Index>
class index_range {
 public:
  class iterator {
   public:
    using value_type = Index;
    using difference_type = std::ptrdiff_t;
    constexpr iterator() = default;
    constexpr explicit iterator(Index at) : at_{at} {}
    constexpr Index operator*() const { return at_; }
    constexpr iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr iterator operator++(int) { return iterator{at_++}; }
    friend constexpr bool operator==(iterator, iterator) = default;

   private:
    Index at_{};
  };

  constexpr index_range(Index first, Index last) : first_{first}, last_{last} {}
  [[nodiscard]] constexpr iterator begin() const { return iterator{first_}; }
  [[nodiscard]] constexpr iterator end() const { return iterator{last_}; }
  [[nodiscard]] constexpr std::size_t size() const { return last_.index() - first_.index(); }
  [[nodiscard]] constexpr bool empty() const { return first_ == last_; }

 private:
  Index first_;
  Index last_;
};

/// All indices of one kind: `for (auto const rank : first_n<rank_id>(ranks))`.
template <class Index>
[[nodiscard]] constexpr index_range<Index> first_n(int count) {
  return {Index{0}, Index{count}};
}

}  // namespace fssdp
