// SPDX-License-Identifier: Apache-2.0
/// Colors the edges of a bipartite graph of senders and receivers, so that no rank sends or
/// receives twice in one color.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// A bipartite multigraph with at most `colors` edges at every sender and at every receiver. Each
/// edge gets a color that is free at both ends. If there is none, two colors are exchanged along
/// the alternating path that begins at the receiver, which cannot reach the sender (Koenig).
class edge_coloring {
 public:
  struct edge {
    rank_id sender;
    rank_id receiver;
  };

  edge_coloring(int ranks, int colors) : colors_{static_cast<std::size_t>(colors)} {
    at_sender_.assign(static_cast<std::size_t>(ranks) * colors_, none);
    at_receiver_ = at_sender_;
  }

  /// The color of each edge, from 0.
  [[nodiscard]] std::vector<int> color(std::vector<edge> const& edges) {
    auto color_of = std::vector<int>(edges.size());
    auto const settle = [&](std::size_t e, std::size_t color) {
      at_sender_[at(edges[e].sender, color)] = e;
      at_receiver_[at(edges[e].receiver, color)] = e;
      color_of[e] = static_cast<int>(color);
    };
    auto path = std::vector<std::size_t>{};
    for (std::size_t e = 0; e < edges.size(); ++e) {
      auto const wanted = free_color(at_sender_, edges[e].sender);
      auto const other = free_color(at_receiver_, edges[e].receiver);
      path.clear();
      for (auto next = at_receiver_[at(edges[e].receiver, wanted)]; next != none;) {
        path.push_back(next);
        next = path.size() % 2 == 1 ? at_sender_[at(edges[next].sender, other)]
                                    : at_receiver_[at(edges[next].receiver, wanted)];
      }
      for (auto const turned : path) {
        auto const color = static_cast<std::size_t>(color_of[turned]);
        at_sender_[at(edges[turned].sender, color)] = none;
        at_receiver_[at(edges[turned].receiver, color)] = none;
      }
      for (auto const turned : path)
        settle(turned, static_cast<std::size_t>(color_of[turned]) == wanted ? other : wanted);
      settle(e, wanted);
    }
    return color_of;
  }

 private:
  static constexpr auto none = static_cast<std::size_t>(-1);

  [[nodiscard]] std::size_t at(rank_id rank, std::size_t color) const {
    return rank.index() * colors_ + color;
  }
  [[nodiscard]] std::size_t free_color(std::vector<std::size_t> const& edge_at,
                                       rank_id rank) const {
    auto color = std::size_t{0};
    while (edge_at[at(rank, color)] != none) ++color;
    return color;
  }

  std::size_t colors_;
  std::vector<std::size_t> at_sender_;    // [ranks, colors]: the edge
  std::vector<std::size_t> at_receiver_;  // [ranks, colors]
};

}  // namespace fssdp::detail
