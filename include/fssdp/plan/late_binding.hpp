// SPDX-License-Identifier: Apache-2.0
/// Decides which piece is sent where and when, by simulating the gather on ideal ports.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fssdp/plan/piece_demand.hpp"
#include "fssdp/plan/port_group.hpp"

namespace fssdp::detail {

/// Time in integers, so that every rank computes the same.
using ticks = std::int64_t;

/// The length of a tick: a picosecond, or longer if the sum of all times would overflow.
class tick_length {
 public:
  /// @param most_seconds the sum of all times
  explicit tick_length(double most_seconds)
      : per_second_{std::min(1e12, static_cast<double>(most_ticks) / most_seconds)} {}

  [[nodiscard]] ticks of(double seconds) const {
    return static_cast<ticks>(std::llround(seconds * per_second_));
  }
  [[nodiscard]] double seconds(ticks time) const { return static_cast<double>(time) / per_second_; }

 private:
  static constexpr auto most_ticks = std::numeric_limits<ticks>::max() / 4;
  double per_second_;
};

/// How long a piece keeps its ports busy, and its latency after that.
struct piece_time {
  ticks busy = 0;
  ticks latency = 0;
};

/// A piece that goes from one rank to another.
struct flow {
  ticks start;
  int item;
  int feeder;  ///< the flow that brought the piece to the source; -1 if the source owns it
  rank_id source;
  rank_id destination;
  int out;  ///< the sending port in its group
  int in;
};

/// A work-conserving simulation from which the trees of the plan result. Whenever a sending and a
/// receiving port are idle, it chooses among the pieces that one has and the other needs: the
/// rarest first; then for the receiver that still needs most; then the most urgent item. A piece
/// that has to leave its node goes before all others, to the end of its rail, while that has few
/// pieces.
class late_binding {
 public:
  /// @pre the sum of the times of all flows fits into ticks: something is always in flight, so no
  ///      time is larger
  /// @param busiest_first as of port_group
  /// @cost O(P log P) time for P flows on few ports; a pure function of its arguments
  late_binding(piece_demand& demand, piece_time inside, piece_time between,
               bool busiest_first = false)
      : demand_{demand},
        inside_{inside, {}, {}, {}, 0, 0},
        between_{between, {}, {}, {}, 0, 0},
        backlog_(static_cast<std::size_t>(demand.topo().ranks())) {
    prepare(busiest_first);
    do {
      for_each_fresh(inside_, [this](std::size_t group) { start_inside(group); });
      for_each_fresh(between_, [this](std::size_t group) { start_between(group); });
    } while (advance());
  }

  /// All flows, in order of their start.
  [[nodiscard]] std::vector<flow> const& flows() const { return flows_; }
  /// When the last flow arrives.
  [[nodiscard]] ticks end() const { return now_; }

 private:
  /// All ports of one kind: groups that work independently, and their flows in order of their
  /// start, which is also the order of their end.
  struct port_kind {
    piece_time time;
    std::vector<port_group> groups;
    std::vector<std::size_t> fresh;  // groups that may have new matches
    std::vector<int> flows;
    std::size_t released;  // the number of flows whose ports are idle again
    std::size_t arrived;
  };
  static constexpr auto never = std::numeric_limits<ticks>::max();

  void prepare(bool busiest_first) {
    auto const& topo = demand_.topo();
    for (auto const node : first_n<node_id>(topo.nodes()))
      inside_.groups.emplace_back(static_cast<int>(topo.ranks_on(node).size()), busiest_first);
    if (topo.nodes() > 1)
      for (int rail = 0; rail < demand_.rails(); ++rail)
        between_.groups.emplace_back(demand_.entry_ports(), busiest_first);
    for (int item = 0; item < demand_.items(); ++item) {
      for (auto const node : first_n<node_id>(topo.nodes()))
        inside_.groups[node.index()].expect(demand_.wanted_on(item, node));
      if (demand_.crosses(item)) rail(item).expect(demand_.wanted_at_entries(item));
    }
    for (int item = 0; item < demand_.items(); ++item) {
      auto const owner = demand_.owner(item);
      if (rail_begin(item, topo.node(owner)) == demand_.position(owner)) ++backlog_[owner.index()];
      arrive(item, owner, -1);
    }
  }

  /// Calls start(group) for all groups that may have new matches, and clears their list.
  template <class Start>
  void for_each_fresh(port_kind& kind, Start start) {
    turn_.clear();
    std::swap(turn_, kind.fresh);
    for (auto const group : turn_) start(group);
  }

  [[nodiscard]] port_group& rail(int item) {
    return between_.groups[static_cast<std::size_t>(demand_.rail(item))];
  }

  /// A rank has received an item and can pass it on.
  void arrive(int item, rank_id rank, int feeder) {
    auto const node = demand_.topo().node(rank);
    inside_.groups[node.index()].offer(demand_.position(rank), item, feeder,
                                       demand_.wanted_on(item, node),
                                       demand_.holders_on(item, node), rail_begin(item, node));
    inside_.fresh.push_back(node.index());
    auto const enters = feeder < 0 || !demand_.topo().same_node(flow_at(feeder).source, rank);
    auto const kind = demand_.kind();
    if (!demand_.crosses(item) || (kind == piece_demand::entries::of_nodes && !enters) ||
        (kind == piece_demand::entries::of_rails && rank != demand_.rail_end(item, node)))
      return;
    rail(item).offer(kind == piece_demand::entries::of_ranks ? rank.value() : node.value(), item,
                     feeder, demand_.wanted_at_entries(item), demand_.crossed(item));
    between_.fresh.push_back(static_cast<std::size_t>(demand_.rail(item)));
  }

  /// The port of the rank through which an item leaves a node on a rail, if that is its owner's
  /// node.
  [[nodiscard]] int rail_begin(int item, node_id node) const {
    auto const leaves = demand_.kind() == piece_demand::entries::of_rails &&
                        demand_.crosses(item) && demand_.owner_node(item) == node;
    return leaves ? demand_.rail(item) : port_group::nobody;
  }

  void start_inside(std::size_t group) {
    auto const node = node_id{group};
    auto const ranks = demand_.topo().ranks_on(node);
    inside_.groups[group].bring_together(
        [&](int item, int in) { return has_port(demand_.wanted_on(item, node), in); },
        [&](int item) { return demand_.holders_on(item, node); },
        [&](int in) { return backlog_[ranks[static_cast<std::size_t>(in)].index()]; },
        [&](port_group::match const& m) {
          auto const to = ranks[static_cast<std::size_t>(m.in)];
          if (rail_begin(m.item, node) == m.in) ++backlog_[to.index()];
          demand_.begin_inside(m.item, to);
          start(inside_, m, ranks[static_cast<std::size_t>(m.out)], to);
        });
  }

  void start_between(std::size_t group) {
    between_.groups[group].bring_together(
        [&](int item, int in) { return has_port(demand_.wanted_at_entries(item), in); },
        [&](int item) { return demand_.crossed(item); }, [](int) { return 0; },
        [&](port_group::match const& m) {
          auto const from = m.feeder < 0 ? demand_.owner(m.item) : flow_at(m.feeder).destination;
          auto const to = entry(m);
          auto const node = demand_.topo().node(to);
          if (demand_.crossed(m.item) == 1) --backlog_[from.index()];
          if (has_port(demand_.wanted_on(m.item, node), demand_.position(to)))
            inside_.groups[node.index()].satisfy(demand_.position(to));
          demand_.begin_crossing(m.item, m.in, to);
          start(between_, m, from, to);
        });
  }
  /// The rank that receives an item for its node; where ranks share the entry, the one that needs
  /// most.
  [[nodiscard]] rank_id entry(port_group::match const& m) {
    if (demand_.kind() == piece_demand::entries::of_ranks) return rank_id{m.in};
    auto const node = node_id{m.in};
    if (demand_.kind() == piece_demand::entries::of_rails) return demand_.rail_end(m.item, node);
    auto const wanted = demand_.wanted_on(m.item, node);
    auto const& group = inside_.groups[node.index()];
    auto best = -1;
    for_each_common(wanted, wanted, [&](int in) {
      if (best < 0 || group.to_come(in) > group.to_come(best)) best = in;
    });
    return demand_.topo().ranks_on(node)[static_cast<std::size_t>(best)];
  }

  void start(port_kind& kind, port_group::match const& m, rank_id from, rank_id to) {
    kind.flows.push_back(static_cast<int>(flows_.size()));
    flows_.push_back({now_, m.item, m.feeder, from, to, m.out, m.in});
  }

  [[nodiscard]] flow const& flow_at(int index) const {
    return flows_[static_cast<std::size_t>(index)];
  }
  /// The time at which the next ports become idle; at which the next piece arrives.
  [[nodiscard]] ticks next_release(port_kind const& kind) const {
    if (kind.released == kind.flows.size()) return never;
    return flow_at(kind.flows[kind.released]).start + kind.time.busy;
  }
  [[nodiscard]] ticks next_arrival(port_kind const& kind) const {
    if (kind.arrived == kind.flows.size()) return never;
    return flow_at(kind.flows[kind.arrived]).start + kind.time.busy + kind.time.latency;
  }

  /// Advances to the next event; false if there is none.
  [[nodiscard]] bool advance() {
    auto const next = std::min({next_release(inside_), next_release(between_),
                                next_arrival(inside_), next_arrival(between_)});
    if (next == never) return false;
    now_ = next;
    for (auto* kind : {&inside_, &between_}) {
      for (; next_release(*kind) == now_; ++kind->released) {
        auto const& f = flow_at(kind->flows[kind->released]);
        auto const group = kind == &inside_ ? demand_.topo().node(f.source).index()
                                            : static_cast<std::size_t>(demand_.rail(f.item));
        kind->groups[group].release(f.out, f.in);
        kind->fresh.push_back(group);
      }
      for (; next_arrival(*kind) == now_; ++kind->arrived) {
        auto const index = kind->flows[kind->arrived];
        arrive(flow_at(index).item, flow_at(index).destination, index);
      }
    }
    return true;
  }

  piece_demand& demand_;
  port_kind inside_;
  port_kind between_;
  std::vector<int> backlog_;  // [ranks]: pieces at the end of a rail that have not crossed yet
  std::vector<flow> flows_;
  std::vector<std::size_t> turn_;  // groups that are being processed
  ticks now_ = 0;
};

}  // namespace fssdp::detail
