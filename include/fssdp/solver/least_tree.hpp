// SPDX-License-Identifier: Apache-2.0
/// Finds the places with the smallest keys, while keys change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace fssdp::detail {

/// A tournament tree over numbered places. Of equal keys, that of the lower number is less.
/// @cost O(log places) for a changed key, O(count log places) for the `count` smallest
class least_tree {
 public:
  explicit least_tree(std::size_t places) {
    while (leaves_ < places) leaves_ *= 2;
    keys_.assign(leaves_, std::numeric_limits<double>::infinity());
    winner_.resize(2 * leaves_);
    for (std::size_t i = 0; i < places; ++i) keys_[i] = 0;
    for (std::size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<int>(i);
    for (auto n = leaves_ - 1; n > 0; --n) play(n);
  }

  void set(int place, double key) {
    keys_[static_cast<std::size_t>(place)] = key;
    for (auto n = (leaves_ + static_cast<std::size_t>(place)) / 2; n > 0; n /= 2) play(n);
  }
  [[nodiscard]] int least() const { return winner_[1]; }
  [[nodiscard]] double key(int place) const { return keys_[static_cast<std::size_t>(place)]; }

  /// Appends the place with the smallest key and all that it is compared with on its way to the
  /// root: log2(places) of them, among them the second smallest.
  void append_rivals(std::vector<int>& list) const {
    auto const first = least();
    list.push_back(first);
    for (auto n = leaves_ + static_cast<std::size_t>(first); n > 1; n /= 2)
      if (key(winner_[n ^ 1U]) < std::numeric_limits<double>::infinity())
        list.push_back(winner_[n ^ 1U]);
  }
  /// Appends the places of the smallest keys, ascending, to a list.
  void append_least(std::size_t count, std::vector<int>& list) {
    front_.assign(1, 1);
    auto const later = [&](std::size_t a, std::size_t b) { return beats(winner_[b], winner_[a]); };
    while (count > 0 && !front_.empty()) {
      std::ranges::pop_heap(front_, later);
      auto const top = front_.back();
      front_.pop_back();
      if (keys_[static_cast<std::size_t>(winner_[top])] == std::numeric_limits<double>::infinity())
        return;
      if (top >= leaves_) {
        list.push_back(winner_[top]);
        --count;
        continue;
      }
      for (auto const child : {2 * top, 2 * top + 1}) {
        front_.push_back(child);
        std::ranges::push_heap(front_, later);
      }
    }
  }

 private:
  [[nodiscard]] bool beats(int a, int b) const {
    auto const x = keys_[static_cast<std::size_t>(a)];
    auto const y = keys_[static_cast<std::size_t>(b)];
    return x != y ? x < y : a < b;
  }
  void play(std::size_t n) {
    auto const a = winner_[2 * n];
    auto const b = winner_[2 * n + 1];
    winner_[n] = beats(b, a) ? b : a;
  }

  std::size_t leaves_ = 1;
  std::vector<double> keys_;        // [leaves]
  std::vector<int> winner_;         // [2 * leaves]: of the subtree of each node; 1 is the root
  std::vector<std::size_t> front_;  // a heap of nodes
};

}  // namespace fssdp::detail
