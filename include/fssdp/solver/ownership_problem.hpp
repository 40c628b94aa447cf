// SPDX-License-Identifier: Apache-2.0
/// The input of an ownership_planner in terms of units: items that go together.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Bytes, step cost, load.
using ownership_amounts = std::array<std::uint64_t, 3>;

[[nodiscard]] inline ownership_amounts operator+(ownership_amounts a, ownership_amounts const& b) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] += b[k];
  return a;
}
[[nodiscard]] inline ownership_amounts operator-(ownership_amounts a, ownership_amounts const& b) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] -= b[k];
  return a;
}

/// For each amount, the factor from its value to the fullness of a place (a rank or an interface).
using ownership_scale = std::array<double, 3>;

[[nodiscard]] inline double fullness_of(ownership_amounts const& of, ownership_scale const& scale) {
  auto most = 0.0;
  for (std::size_t k = 0; k < of.size(); ++k)
    most = std::max(most, static_cast<double>(of[k]) * scale[k]);
  return most;
}

struct ownership_problem {
  struct former_owner {
    int rank;
    std::uint64_t bytes;
  };

  // [units]: the ranks that own parts of it; or empty
  std::vector<std::vector<former_owner>> former_owners;
  std::vector<int> unit_of;                  // [items]
  std::vector<int> first_item;               // [units]: the first item of each
  std::vector<ownership_amounts> size;       // [units]
  std::vector<int> list_of;                  // [units]: its list of allowed ranks; -1: all ranks
  std::vector<std::vector<int>> lists;       // ascending ranks
  std::vector<std::vector<int>> cliques;     // units that are apart
  std::vector<std::vector<int>> cliques_of;  // [units]
  std::vector<std::vector<int>> groups;      // units that should be on one node
  std::vector<std::vector<int>> groups_of;   // [units]
  std::vector<int> rank_name;                // [ranks]: the rank of the topology
  std::vector<int> node_of;                  // [ranks]
  std::vector<std::vector<int>> ranks_on;    // [nodes]
  std::vector<int> interface_of;             // [ranks]; empty if interfaces do not count
  std::vector<std::vector<int>> behind;      // [interfaces]: ranks
  ownership_scale rank_scale{};
  std::vector<ownership_scale> interface_scale;  // [interfaces]
  ownership_amounts total{};
  double bound = 0;
  bool has_former_owners = false;

  [[nodiscard]] int units() const { return static_cast<int>(size.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(node_of.size()); }
  [[nodiscard]] std::span<int const> list(int unit) const {
    auto const which = list_of[index(unit)];
    return which < 0 ? std::span<int const>{} : std::span<int const>{lists[index(which)]};
  }
  [[nodiscard]] bool is_allowed(int unit, int rank) const {
    return list_of[index(unit)] < 0 || std::ranges::binary_search(list(unit), rank);
  }
  /// The bytes that move if this rank gets the unit; those that move in any case.
  [[nodiscard]] std::uint64_t moved(int unit, int rank) const {
    auto bytes = std::uint64_t{0};
    if (has_former_owners)
      for (auto const& part : former_owners[index(unit)])
        if (part.rank != rank) bytes += part.bytes;
    return bytes;
  }
  [[nodiscard]] double weight(int unit) const { return fullness_of(size[index(unit)], rank_scale); }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// Reads the topology. Interfaces count if they can be fuller than the ranks behind them.
  void set_topology(topology const& topo) {
    ranks_on.resize(static_cast<std::size_t>(topo.nodes()));
    for (auto const rank : first_n<rank_id>(topo.ranks())) {
      rank_name.push_back(rank.value());
      node_of.push_back(topo.node(rank).value());
      ranks_on[topo.node(rank).index()].push_back(rank.value());
    }
  }

  /// Computes fair shares and the lower bound of fullness.
  /// @param weights of bytes, step cost, load
  void set_scales(topology const& topo, ownership_scale const& weights, double of_interfaces) {
    for (std::size_t k = 0; k < total.size(); ++k)
      if (total[k] > 0)
        rank_scale[k] = weights[k] * static_cast<double>(ranks()) / static_cast<double>(total[k]);
    if (of_interfaces > 0 && topo.nodes() > 1) set_interfaces(topo, weights, of_interfaces);
    for (std::size_t k = 0; k < total.size(); ++k) {
      if (rank_scale[k] <= 0) continue;
      auto sizes = std::vector<std::uint64_t>{};
      for (auto const& of : size) sizes.push_back(of[k]);
      bound = std::max(
          {bound, weights[k], static_cast<double>(most_where_units_meet(sizes)) * rank_scale[k]});
      if (!interface_of.empty() && k != 1) bound = std::max(bound, weights[k] * of_interfaces);
    }
  }

 private:
  void set_interfaces(topology const& topo, ownership_scale const& weights, double of_interfaces) {
    auto number = std::vector<int>(index(topo.ranks()), -1);
    auto bandwidth = std::vector<double>{};
    auto all = 0.0;
    for (int rank = 0; rank < ranks(); ++rank) {
      auto const through = topo.interface_of(rank_id{rank_name[index(rank)]});
      auto& which = number[through.index()];
      if (which < 0) {
        which = static_cast<int>(bandwidth.size());
        bandwidth.push_back(topo.port(through).between_bytes_per_second);
        all += bandwidth.back();
        behind.emplace_back();
      }
      behind[index(which)].push_back(rank);
      interface_of.push_back(which);
    }
    auto const can_be_fuller = [&](std::size_t i) {
      return of_interfaces * static_cast<double>(behind[i].size()) * all >
             bandwidth[i] * static_cast<double>(topo.ranks()) * (1 + 1e-9);
    };
    auto binds = false;
    for (std::size_t i = 0; i < bandwidth.size(); ++i) {
      auto& scale = interface_scale.emplace_back();
      for (auto const k : {0U, 2U})
        if (total[k] > 0)
          scale[k] =
              weights[k] * of_interfaces * all / bandwidth[i] / static_cast<double>(total[k]);
      binds = binds || can_be_fuller(i);
    }
    if (binds) return;
    interface_of.clear();
    interface_scale.clear();
    behind.clear();
  }

  /// A lower bound of the largest sum on a rank: of the largest h * ranks + 1 units, some rank has
  /// at least h + 1; for any h.
  [[nodiscard]] std::uint64_t most_where_units_meet(std::vector<std::uint64_t> sizes) const {
    std::ranges::sort(sizes, std::greater{});
    auto most = std::uint64_t{0};
    auto const step = index(ranks());
    for (std::size_t h = 0; h * step < sizes.size(); ++h) {
      auto sum = std::uint64_t{0};
      for (auto i = h * step - h; i <= h * step; ++i) sum += sizes[i];
      most = std::max(most, sum);
      if (h >= 64) break;  // more units are hardly above the fair share
    }
    return most;
  }
};

}  // namespace fssdp::detail
