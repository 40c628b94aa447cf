// SPDX-License-Identifier: Apache-2.0
/// Which ranks still need which pieces, and on which rail a piece crosses between nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/plan/port_group.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Whether ranks may pass on pieces of experts that they do not hold.
enum class relaying { allowed, none };

/// The pieces of all chunks that move (items), and the ranks and nodes that do not have them yet
/// and are not receiving them.
///
/// A piece enters every node once, through an entry. Where ranks share an interface, nodes are the
/// entries. Where every rank has an interface, there are rails: the interfaces with the same number
/// in their nodes. A piece then crosses from entry to entry of one rail, and the ranks there may
/// relay it; without relays, the entries are the ranks that hold the expert.
class piece_demand {
 public:
  enum class entries { of_nodes, of_rails, of_ranks };

  piece_demand(transfer_plan const& plan, int pieces, relaying how)
      : topo_{plan.topology()}, pieces_{pieces} {
    choose_entries(how);
    collect(plan);
    auto const count = static_cast<std::size_t>(items());
    auto const nodes = static_cast<std::size_t>(topo_.nodes());
    wanted_.resize(count * nodes * node_words_);
    entry_wanted_.resize(count * entry_words_);
    holders_.resize(count * nodes);
    crossed_.resize(count, 1);
    entering_.resize(static_cast<std::size_t>(topo_.ranks()));
    for (int item = 0; item < items(); ++item) note(item);
  }

  [[nodiscard]] topology const& topo() const { return topo_; }
  [[nodiscard]] int pieces() const { return pieces_; }
  [[nodiscard]] int items() const { return static_cast<int>(chunks_.size()) * pieces_; }
  [[nodiscard]] entries kind() const { return entries_; }
  [[nodiscard]] int rails() const { return rails_; }
  [[nodiscard]] int entry_ports() const { return entry_ports_; }

  [[nodiscard]] piece_id piece(int item) const {
    return {of(item).chunk, item / static_cast<int>(chunks_.size())};
  }
  [[nodiscard]] rank_id owner(int item) const { return of(item).owner; }
  [[nodiscard]] node_id owner_node(int item) const { return topo_.node(owner(item)); }
  /// Whether other nodes need it.
  [[nodiscard]] bool crosses(int item) const { return of(item).crosses; }
  /// The rail of an item: pieces of a chunk alternate between rails, and chunks start at different
  /// ones.
  [[nodiscard]] int rail(int item) const {
    auto const chunks = static_cast<int>(chunks_.size());
    return (item / chunks + item % chunks) % rails_;
  }
  /// The rank of a node on the rail of an item.
  [[nodiscard]] rank_id rail_end(int item, node_id node) const {
    return topo_.ranks_on(node)[static_cast<std::size_t>(rail(item))];
  }
  /// The place of a rank within its node.
  [[nodiscard]] int position(rank_id rank) const { return position_[rank.index()]; }

  /// The ranks on a node that need an item, by position.
  [[nodiscard]] std::span<port_word> wanted_on(int item, node_id node) {
    return {wanted_.data() + at(item, node) * node_words_, node_words_};
  }
  /// The entries through which an item has yet to enter.
  [[nodiscard]] std::span<port_word> wanted_at_entries(int item) {
    return {entry_wanted_.data() + static_cast<std::size_t>(item) * entry_words_, entry_words_};
  }
  /// How many ranks of a node, and how many nodes, have an item or are receiving it.
  [[nodiscard]] int holders_on(int item, node_id node) const { return holders_[at(item, node)]; }
  [[nodiscard]] int crossed(int item) const { return crossed_[static_cast<std::size_t>(item)]; }

  void begin_inside(int item, rank_id to) {
    exclude_port(wanted_on(item, topo_.node(to)), position(to));
    count(holders_[at(item, topo_.node(to))]);
  }
  void begin_crossing(int item, int entry, rank_id to) {
    exclude_port(wanted_at_entries(item), entry);
    count(crossed_[static_cast<std::size_t>(item)]);
    begin_inside(item, to);
  }

 private:
  struct moving_chunk {
    chunk_id chunk;
    rank_id owner;
    std::size_t first;  // index of its destinations
    std::size_t last;
    bool crosses;
  };

  void choose_entries(relaying how) {
    position_.resize(static_cast<std::size_t>(topo_.ranks()));
    auto fewest = topo_.ranks();
    auto most = 0;
    for (auto const node : first_n<node_id>(topo_.nodes())) {
      auto const here = topo_.ranks_on(node);
      fewest = std::min(fewest, static_cast<int>(here.size()));
      most = std::max(most, static_cast<int>(here.size()));
      for (std::size_t i = 0; i < here.size(); ++i)
        position_[here[i].index()] = static_cast<int>(i);
    }
    entries_ = topo_.network() == network_interface::per_node ? entries::of_nodes
               : how == relaying::allowed                     ? entries::of_rails
                                                              : entries::of_ranks;
    rails_ = entries_ == entries::of_rails ? fewest : 1;
    node_words_ = words_for(most);
    entry_ports_ = entries_ == entries::of_ranks ? topo_.ranks() : topo_.nodes();
    entry_words_ = words_for(entry_ports_);
  }

  /// Collects the chunks that move, those that most ranks need first. Items are numbered by piece,
  /// then by chunk: a lower number is more urgent.
  void collect(transfer_plan const& plan) {
    for (auto const chunk : chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
      auto const owner = plan.owner(chunk);
      auto const first = destinations_.size();
      auto crosses = false;
      for (auto const rank : plan.where().holders(chunk.expert)) {
        if (rank == owner) continue;
        destinations_.push_back(rank);
        crosses = crosses || !topo_.same_node(rank, owner);
      }
      if (destinations_.size() != first)
        chunks_.push_back({chunk, owner, first, destinations_.size(), crosses});
    }
    std::ranges::stable_sort(chunks_, std::ranges::greater{},
                             [](moving_chunk const& c) { return c.last - c.first; });
  }

  [[nodiscard]] moving_chunk const& of(int item) const {
    return chunks_[static_cast<std::size_t>(item) % chunks_.size()];
  }
  [[nodiscard]] std::size_t at(int item, node_id node) const {
    return static_cast<std::size_t>(item) * static_cast<std::size_t>(topo_.nodes()) + node.index();
  }
  static void count(std::uint8_t& holders) {
    if (holders < std::numeric_limits<std::uint8_t>::max()) ++holders;
  }

  /// Records which ranks need an item, and through which entries it enters nodes.
  void note(int item) {
    auto const& chunk = of(item);
    auto const destinations =
        std::span{destinations_}.subspan(chunk.first, chunk.last - chunk.first);
    for (auto const rank : destinations)
      include_port(wanted_on(item, topo_.node(rank)), position(rank));
    count(holders_[at(item, owner_node(item))]);
    if (!chunk.crosses) return;
    for (auto const rank : destinations)
      if (topo_.node(rank) != owner_node(item))
        include_port(wanted_at_entries(item), entry_into(item, topo_.node(rank)));
    if (entries_ == entries::of_rails && rail_end(item, owner_node(item)) != chunk.owner)
      include_port(wanted_on(item, owner_node(item)), position(rail_end(item, owner_node(item))));
  }
  /// The entry through which an item enters a node; of several ranks, the one with fewest so far.
  [[nodiscard]] int entry_into(int item, node_id node) {
    if (entries_ != entries::of_ranks) return node.value();
    auto best = -1;
    for (auto const rank : topo_.ranks_on(node)) {
      if (has_port(wanted_at_entries(item), rank.value())) return rank.value();
      if (has_port(wanted_on(item, node), position(rank)) &&
          (best < 0 || entering_[rank.index()] < entering_[static_cast<std::size_t>(best)]))
        best = rank.value();
    }
    ++entering_[static_cast<std::size_t>(best)];
    return best;
  }

  topology const& topo_;
  int pieces_;
  entries entries_ = entries::of_nodes;
  int rails_ = 1;
  int entry_ports_ = 0;
  std::size_t node_words_ = 1;
  std::size_t entry_words_ = 1;
  std::vector<int> position_;  // [ranks]
  std::vector<moving_chunk> chunks_;
  std::vector<rank_id> destinations_;    // of all chunks
  std::vector<port_word> wanted_;        // [item, node, words]
  std::vector<port_word> entry_wanted_;  // [item, words]
  std::vector<std::uint8_t> holders_;    // [item, node]
  std::vector<std::uint8_t> crossed_;    // [item]
  std::vector<int> entering_;            // [ranks]: items that enter a node there
};

}  // namespace fssdp::detail
