// SPDX-License-Identifier: Apache-2.0
/// EPLB in the plainest way: whole numbers, as all loads are multiplied by what all counts divide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace support {

/// Nodes of as many ranks, consecutive. No expert may get more than 16 replicas.
struct naive_eplb {
  using numbers = std::vector<long long>;

  int replicas;
  int groups;
  int nodes;
  int ranks;

  /// [replicas] of experts, rank by rank
  [[nodiscard]] std::vector<int> operator()(std::vector<std::uint64_t> const& loads) const {
    if (groups % nodes != 0) return naive_eplb{replicas, 1, 1, ranks}(loads);
    auto const experts = static_cast<int>(loads.size());
    auto const size = experts / groups;
    auto of_group = numbers(static_cast<std::size_t>(groups));
    for (int e = 0; e < experts; ++e) at(of_group, e / size) += load(loads, e);
    auto result = std::vector<int>{};
    for (auto const& pack : packs(of_group, nodes)) {
      auto held = std::vector<int>{};
      for (auto const group : pack)
        for (int e = 0; e < size; ++e) held.push_back(group * size + e);
      auto count = std::vector<long long>(loads.size(), 1);
      auto const own = held;
      while (static_cast<int>(held.size()) < replicas / nodes) {
        auto best = own.front();
        for (auto const e : own)
          if (load(loads, e) / at(count, e) > load(loads, best) / at(count, best)) best = e;
        held.push_back(best);
        ++at(count, best);
      }
      auto shares = numbers{};
      for (auto const e : held) shares.push_back(load(loads, e) / at(count, e));
      for (auto const& slots : packs(shares, ranks / nodes))
        for (auto const slot : slots) result.push_back(at(held, slot));
    }
    return result;
  }

 private:
  template <class List>
  static auto at(List& list, int place) -> decltype(list.at(0)) {
    return list.at(static_cast<std::size_t>(place));
  }
  static long long load(std::vector<std::uint64_t> const& loads, int expert) {
    return 720'720 * static_cast<long long>(at(loads, expert));  // divides by 1 to 16
  }

  static std::vector<std::vector<int>> packs(numbers const& weights, int count) {
    auto const items = static_cast<int>(weights.size());
    auto lists = std::vector<std::vector<int>>(static_cast<std::size_t>(count));
    auto sums = numbers(lists.size());
    auto taken = std::vector<bool>(weights.size());
    for (int step = 0; step < items; ++step) {
      auto item = -1;
      for (int i = 0; i < items; ++i)
        if (!taken[static_cast<std::size_t>(i)] && (item < 0 || at(weights, i) > at(weights, item)))
          item = i;
      if (items == count) item = step;
      auto pack = -1;
      for (int p = 0; p < count; ++p)
        if (static_cast<int>(at(lists, p).size()) < items / count &&
            (pack < 0 || at(sums, p) < at(sums, pack)))
          pack = p;
      if (items == count) pack = step;
      taken[static_cast<std::size_t>(item)] = true;
      at(lists, pack).push_back(item);
      at(sums, pack) += at(weights, item);
    }
    return lists;
  }
};

}  // namespace support
