// SPDX-License-Identifier: Apache-2.0
/// A lower bound that includes latency and the filling and emptying of pipelines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "fssdp/plan/gather_volume.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The range of numbers of pieces per chunk: from `fewest` to `most`.
struct piece_counts {
  int fewest = 1;
  int most = 1;
};

/// A bound for all plans that cut all chunks into the same number of equal pieces.
///
/// A port that passes p pieces is busy for p (o + s/B), and the last of them arrives one latency
/// later. Three terms are added:
///  - Filling. A port receives nothing before some rank has something to send to it: owners do from
///    the start; any other rank does a piece-time and a latency after its own first piece has begun
///    to arrive. So the number of ports that have begun grows like a broadcast, and the j-th one
///    loses the time until then (`begins`).
///  - Emptying. When the last piece leaves its owner (its node) for the first time, no other rank
///    has it. All others must still receive it: from ranks that have received it, and from its
///    owner (node), which sends its x-th further copy at the earliest after all first copies and
///    x - 1 others (`further_places`).
///  - Whole pieces: p pieces take until the ports together can have passed p whole ones
///    (`time_for`).
/// The bound holds for every plan that verify accepts and every topology, whichever way pieces
/// take: a piece may enter a node several times, directly from its owner, and leave its node and
/// come back. All ports of a kind count as fast as the fastest of them.
///
/// For a range of numbers it is slightly below the smallest of their bounds: pieces count as the
/// smallest, overheads as those of the fewest pieces, and ports pass fractions of pieces.
class pipeline_bound {
 public:
  pipeline_bound(topology const& topo, gather_volume const& volume, double chunk_bytes,
                 piece_counts const& pieces)
      : topo_{topo}, volume_{volume}, pieces_{pieces.most}, whole_{pieces.fewest == pieces.most} {
    auto inside_rate = 0.0;
    auto between_rate = 0.0;
    for (auto const rank : first_n<rank_id>(topo.ranks())) {
      inside_rate = std::max(inside_rate, topo.port(rank).inside_bytes_per_second);
      between_rate = std::max(between_rate, topo.port(rank).between_bytes_per_second);
    }
    auto const& cost = topo.cost();
    auto const bytes = chunk_bytes / pieces.most;
    auto const each = cost.port_seconds * pieces.fewest / pieces.most;
    inside_ = {bytes / inside_rate + each, cost.inside_latency_seconds};
    between_ = {bytes / between_rate + each, cost.between_latency_seconds};
  }

  /// @param enough a known bound: the computation may stop, and returns at least this
  [[nodiscard]] double seconds(double enough = std::numeric_limits<double>::infinity()) const {
    auto most = into_nodes();
    for (auto const node : first_n<node_id>(topo_.nodes())) {
      if (most >= enough) return most;
      most = std::max({most, into_ranks_of(node), out_of_node(node), into_node(node)});
    }
    for (auto const rank : first_n<rank_id>(topo_.ranks())) {
      if (most >= enough) return most;
      most = std::max({most, into_rank(rank), out_of_rank(rank)});
    }
    return most;
  }

 private:
  using times = std::priority_queue<double, std::vector<double>, std::greater<>>;

  struct port {
    double busy;
    double latency;
    [[nodiscard]] double hop() const { return busy + latency; }
  };
  /// A port that is open from some time on; it passes whole pieces one after the other.
  struct opening {
    double begin;
    double busy;
    double end;  ///< the time after its last piece
  };

  /// The first time at which these ports together can have passed a number of pieces.
  [[nodiscard]] double time_for(long pieces, std::span<opening const> ports) const {
    if (pieces <= 0) return 0;
    auto const passed = [&](double time) {
      auto total = 0.0;
      for (auto const& p : ports) {
        auto const count = (time - p.begin - p.end) / p.busy;
        total += std::max(0.0, whole_ ? std::floor(count + 1e-9) : count);
      }
      return total;
    };
    auto low = 0.0;
    auto high = 1.0e-6;
    while (passed(high) < static_cast<double>(pieces)) high *= 2;
    for (int step = 0; step < 60; ++step) {
      auto const middle = (low + high) / 2;
      (passed(middle) < static_cast<double>(pieces) ? low : high) = middle;
    }
    return low;
  }

  /// The earliest times at which a number of ports can begin to receive. Those in `senders` can
  /// send from these times on; every port that has begun to receive can send, too.
  [[nodiscard]] static std::vector<double> begins(std::vector<double> senders, std::size_t ports,
                                                  port const& of) {
    auto free = times{std::greater<>{}, std::move(senders)};
    auto found = std::vector<double>{};
    while (found.size() < ports && !free.empty()) {
      auto const begin = free.top();
      free.pop();
      found.push_back(begin);
      free.push(begin + of.busy);
      free.push(begin + of.hop());
    }
    return found;
  }

  /// The times at which further copies of a piece arrive at the places that need it. The piece
  /// comes after `passed` others, and all of them leave a place for the first time through `ports`.
  /// That place sends further copies, one latency each. Places that have the piece send it through
  /// ports like `way`, beginning at the times that join(time, push) pushes.
  template <class Join>
  class further_places {
   public:
    further_places(pipeline_bound const& of, long passed, std::vector<opening> ports,
                   port const& way, Join join)
        : of_{of}, passed_{passed}, ports_{std::move(ports)}, way_{way}, join_{std::move(join)} {}

    /// The next of these times.
    [[nodiscard]] double next() {
      auto time = 0.0;
      if (copy_ < 0) copy_ = of_.time_for(passed_, ports_);
      auto const by_other =
          free_.empty() ? std::numeric_limits<double>::infinity() : free_.top() + way_.hop();
      if (copy_ + way_.latency <= by_other) {
        time = copy_ + way_.latency;
        copy_ = -1;
        ++passed_;
      } else {
        time = by_other;
        auto const begin = free_.top();
        free_.pop();
        free_.push(begin + way_.busy);
      }
      join_(time, [&](double from) { free_.push(from); });
      return time;
    }
    /// The n-th time from now on.
    [[nodiscard]] double next(int n) {
      auto last = 0.0;
      for (int i = 0; i < n; ++i) last = next();
      return last;
    }

   private:
    pipeline_bound const& of_;
    long passed_;
    std::vector<opening> ports_;
    port way_;
    Join join_;
    times free_;
    double copy_ = -1;  // when the next copy has left; negative: not computed yet
  };

  /// When a piece that has entered a node has reached `others` more of its ranks: they pass it on,
  /// and further copies may enter at the times that entry() returns, ascending.
  template <class Entry>
  [[nodiscard]] double spread(double first, int others, Entry entry) const {
    auto free = times{};
    free.push(first);
    auto last = first;
    auto entered = others > 0 ? entry() : 0.0;
    for (int reached = 0; reached < others; ++reached) {
      auto const by_other = free.top() + inside_.hop();
      if (entered <= by_other) {
        last = entered;
        entered = entry();
      } else {
        last = by_other;
        auto const begin = free.top();
        free.pop();
        free.push(begin + inside_.busy);
      }
      free.push(last);
    }
    return last;
  }

  [[nodiscard]] bool several_nodes() const { return topo_.nodes() > 1; }
  [[nodiscard]] int interfaces(node_id node) const {
    return topo_.network() == network_interface::per_node
               ? 1
               : static_cast<int>(topo_.ranks_on(node).size());
  }
  [[nodiscard]] long count(gather_volume::amount chunks) const {
    return static_cast<long>(chunks * pieces_);
  }

  /// When an interface can first receive for the ranks behind it: from the start, unless all that
  /// they get is owned on their own node and would have to leave it first.
  [[nodiscard]] double first_use(gather_volume::amount remote) const {
    return remote != 0 ? 0 : between_.hop();
  }

  /// What a rank gets comes through its port inside the node or through the interface.
  [[nodiscard]] double into_rank(rank_id rank) const {
    auto const all = volume_.into_rank[rank.index()];
    auto const remote = volume_.into_rank_remote[rank.index()];
    if (all == 0) return 0;
    auto ports =
        std::vector<opening>{{all == remote ? between_.hop() : 0.0, inside_.busy, inside_.latency}};
    if (several_nodes()) ports.push_back({first_use(remote), between_.busy, between_.latency});
    return time_for(count(all), ports);
  }

  /// What a rank owns leaves it once; the last piece must then reach all others that get it.
  [[nodiscard]] double out_of_rank(rank_id rank) const {
    auto const& owned = volume_.out_of_rank[rank.index()];
    if (owned.all == 0) return 0;
    auto const pieces = count(owned.all);
    auto const link = opening{0, inside_.busy, 0};
    auto const one_port = [](double time, auto push) { push(time); };
    if (!several_nodes())
      return further_places{*this, pieces, {link}, inside_, one_port}.next(owned.fewest_ranks);
    auto const ports = std::vector<opening>{link, {0, between_.busy, 0}};
    auto const quick =
        port{std::min(inside_.busy, between_.busy), std::min(inside_.latency, between_.latency)};
    auto const two_ports = [](double time, auto push) {
      push(time);
      push(time);
    };
    auto const any =
        further_places{*this, pieces, ports, quick, two_ports}.next(owned.fewest_ranks);
    if (owned.crossing != 0) return any;
    // No other node gets anything: a copy that leaves the node has to come back. The copy of the
    // last piece does not leave, or comes back a latency and a hop later.
    auto const back = between_.latency + between_.hop();
    auto const last =
        std::min(further_places{*this, pieces, ports, inside_, one_port}.next(owned.fewest_ranks),
                 time_for(pieces, ports) + back);
    auto const arriving =
        std::vector<opening>{{0, inside_.busy, inside_.latency}, {0, between_.busy, back}};
    return std::max({any, last, time_for(pieces, arriving)});
  }

  /// All ranks of a node together: none receives before some rank has something to send.
  [[nodiscard]] double into_ranks_of(node_id node) const {
    auto const ranks = topo_.ranks_on(node);
    auto total = 0L;
    auto receivers = std::size_t{0};
    auto senders = std::vector<double>{};
    for (auto const rank : ranks) {
      total += count(volume_.into_rank[rank.index()]);
      receivers += volume_.into_rank[rank.index()] != 0 ? 1 : 0;
      if (volume_.out_of_rank[rank.index()].staying != 0) senders.push_back(0);
    }
    if (total == 0) return 0;
    auto ports = std::vector<opening>{};
    if (several_nodes()) {
      auto const first = first_use(volume_.into_node[node.index()]);
      for (int i = 0; i < interfaces(node); ++i)
        ports.push_back({first, between_.busy, between_.latency});
      // What has entered can be sent by all ranks if each has an interface; otherwise by one after
      // the other.
      for (std::size_t i = 0; i < ranks.size(); ++i)
        senders.push_back(first + between_.hop() +
                          (interfaces(node) == 1 ? static_cast<double>(i) * between_.busy : 0.0));
    }
    for (auto const begin : begins(std::move(senders), receivers, inside_))
      ports.push_back({begin, inside_.busy, inside_.latency});
    return time_for(total, ports);
  }

  /// What leaves a node: ranks that own none of it receive it from those that do. The last piece
  /// must then reach the other nodes, and in the last of them all ranks.
  [[nodiscard]] double out_of_node(node_id owner_node) const {
    auto const leaving = volume_.out_of_node[owner_node.index()];
    if (leaving == 0) return 0;
    auto owners = std::size_t{0};
    auto nodes = gather_volume::nothing;
    auto ranks = gather_volume::nothing;
    for (auto const rank : topo_.ranks_on(owner_node)) {
      auto const& owned = volume_.out_of_rank[rank.index()];
      nodes = std::min(nodes, owned.fewest_nodes);
      ranks = std::min(ranks, owned.fewest_there);
      owners += owned.crossing != 0 ? 1 : 0;
    }
    auto ports =
        std::vector<opening>(interfaces(owner_node) == 1 ? 1 : owners, {0, between_.busy, 0});
    if (auto const all = static_cast<std::size_t>(interfaces(owner_node)); ports.size() < all)
      for (auto const begin : begins(std::vector<double>(owners), all - ports.size(), inside_))
        ports.push_back({begin + inside_.hop(), between_.busy, 0});
    auto entries = further_places{
        *this, count(leaving), std::move(ports), between_, [&](double time, auto push) {
          push(time);
          for (auto const begin :
               begins({time}, static_cast<std::size_t>(most_interfaces() - 1), inside_))
            push(begin + inside_.hop());
        }};
    auto const first = entries.next(nodes);
    return spread(first, ranks - 1, [&] { return entries.next(); });
  }

  /// What enters a node; the last piece must then reach its ranks.
  [[nodiscard]] double into_node(node_id node) const {
    auto const entering = volume_.into_node[node.index()];
    if (entering == 0) return 0;
    auto const ports = std::vector<opening>(static_cast<std::size_t>(interfaces(node)),
                                            {0, between_.busy, between_.latency});
    auto passed = count(entering);
    auto const first = time_for(passed, ports);
    return spread(first, volume_.fewest_on[node.index()] - 1,
                  [&] { return time_for(++passed, ports); });
  }

  /// All nodes together: no interface receives before another one has something to send.
  [[nodiscard]] double into_nodes() const {
    if (volume_.between_nodes == 0) return 0;
    auto senders = std::vector<double>{};
    auto receivers = std::size_t{0};
    for (auto const node : first_n<node_id>(topo_.nodes())) {
      if (volume_.out_of_node[node.index()] != 0)
        for (int i = 0; i < interfaces(node); ++i) senders.push_back(0);
      if (volume_.into_node[node.index()] != 0)
        receivers += static_cast<std::size_t>(interfaces(node));
    }
    auto ports = std::vector<opening>{};
    // what a rank has received can be sent by all interfaces of its node
    auto free = times{std::greater<>{}, std::move(senders)};
    while (ports.size() < receivers) {
      auto const begin = free.top();
      free.pop();
      ports.push_back({begin, between_.busy, between_.latency});
      free.push(begin + between_.busy);
      for (int i = 0; i < most_interfaces(); ++i) free.push(begin + between_.hop());
    }
    return time_for(count(volume_.between_nodes), ports);
  }
  [[nodiscard]] int most_interfaces() const {
    auto most = 1;
    for (auto const node : first_n<node_id>(topo_.nodes())) most = std::max(most, interfaces(node));
    return most;
  }

  topology const& topo_;
  gather_volume const& volume_;
  int pieces_;
  bool whole_;  // pieces are passed one by one, not in fractions
  port inside_{};
  port between_{};
};

}  // namespace fssdp::detail
