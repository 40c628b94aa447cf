// SPDX-License-Identifier: Apache-2.0
/// A lower bound that counts latency and the filling and emptying of pipelines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/plan/gather_volume.hpp"

namespace fssdp::detail {

/// What no plan can beat that cuts all chunks into the same number of equal pieces.
///
/// A port that passes p pieces is busy for p (o + s/B), and the last of them arrives one latency
/// later. Three things come on top of that count:
///  - Filling. A port receives nothing before some rank has something to send to it: owners have
///    from the start, any other rank a piece-time and a latency after its own first piece has begun
///    to arrive. So the number of ports that have begun grows like a broadcast, and the j-th to
///    begin loses the time until then, whatever is sent (`begins`).
///  - Emptying. When the last piece leaves its owner (its node) for the first time, nobody else has
///    it. All others that want it must still be reached: by those that get it, and by its owner
///    (node), whose x-th further copy is at the earliest what its ports pass behind all the first
///    ones and x - 1 copies (`reach`).
///  - Ports pass whole pieces: p of them need the first time at which the ports together can have
///    passed p (`time_for`).
/// All holds for every schedule on these ports in which a chunk enters a node once, whichever way
/// its pieces take, as only what must be there is counted. Ports are taken to be as fast as the
/// fastest of their kind.
class pipeline_bound {
 public:
  pipeline_bound(topology const& machine, gather_volume const& volume, double piece_bytes,
                 int pieces)
      : machine_{machine}, volume_{volume}, pieces_{pieces} {
    auto inside_rate = 0.0;
    auto between_rate = 0.0;
    for (auto const rank : first_n<rank_id>(machine.ranks())) {
      inside_rate = std::max(inside_rate, machine.port(rank).inside_bytes_per_second);
      between_rate = std::max(between_rate, machine.port(rank).between_bytes_per_second);
    }
    auto const& cost = machine.cost();
    inside_ = {piece_bytes / inside_rate + cost.port_seconds, cost.inside_latency_seconds};
    between_ = {piece_bytes / between_rate + cost.port_seconds, cost.between_latency_seconds};
  }

  [[nodiscard]] double seconds() const {
    auto most = 0.0;
    for (auto const rank : first_n<rank_id>(machine_.ranks())) {
      most = std::max(most, into_rank(rank));
      most = std::max(most, out_of_rank(rank));
    }
    for (auto const node : first_n<node_id>(machine_.nodes()))
      most = std::max({most, into_ranks_of(node), out_of_node(node), into_node(node)});
    return std::max(most, into_nodes());
  }

 private:
  struct port {
    double busy;
    double latency;
    [[nodiscard]] double hop() const { return busy + latency; }
  };
  /// A port that begins at a time and can have passed on whole pieces since then.
  struct opening {
    double begin;
    double busy;
    double end;  ///< what comes behind the last piece
    int most = std::numeric_limits<int>::max();
  };

  /// The first time at which ports together can have passed a number of pieces.
  [[nodiscard]] static double time_for(long pieces, std::span<opening const> ports) {
    if (pieces <= 0) return 0;
    auto const passed = [&](double time) {
      auto total = 0.0;
      for (auto const& p : ports)
        total += std::min(static_cast<double>(p.most),
                          std::max(0.0, std::floor((time - p.begin - p.end) / p.busy + 1e-9)));
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

  /// When each of a number of ports can begin to receive, at the earliest: those that have
  /// something to send do so from `senders` on, and whoever has begun to receive joins them.
  [[nodiscard]] static std::vector<double> begins(std::vector<double> senders, std::size_t ports,
                                                  port const& of) {
    auto free = std::priority_queue<double, std::vector<double>, std::greater<>>{
        std::greater<>{}, std::move(senders)};
    auto times = std::vector<double>{};
    while (times.size() < ports && !free.empty()) {
      auto const begin = free.top();
      free.pop();
      times.push_back(begin);
      free.push(begin + of.busy);
      free.push(begin + of.hop());
    }
    return times;
  }

  /// How long a piece takes from a holder to so many others.
  [[nodiscard]] static double spread(int others, port const& of) {
    if (others <= 0) return 0;
    return begins({0}, static_cast<std::size_t>(others), of).back() + of.hop();
  }

  /// How long until a piece is where `places` others want it, behind the last of `passed` pieces
  /// that leave a place for the first time through `ports`. Who has it passes it on as fast as
  /// `way`, with as many ports, from such times on, as join(time, push) says.
  template <class Join>
  [[nodiscard]] static double reach(long passed, std::span<opening const> ports, int places,
                                    port const& way, Join join) {
    auto free = std::priority_queue<double, std::vector<double>, std::greater<>>{};
    auto last = 0.0;
    auto copy = time_for(passed, ports);
    for (int reached = 0; reached < places; ++reached) {
      auto const by_other =
          free.empty() ? std::numeric_limits<double>::infinity() : free.top() + way.hop();
      if (copy + way.latency <= by_other) {
        last = copy + way.latency;
        copy = time_for(++passed, ports);
      } else {
        last = by_other;
        auto const begin = free.top();
        free.pop();
        free.push(begin + way.busy);
      }
      join(last, [&](double time) { free.push(time); });
    }
    return last;
  }

  [[nodiscard]] bool several_nodes() const { return machine_.nodes() > 1; }
  [[nodiscard]] int interfaces(node_id node) const {
    return machine_.network() == network_interface::per_node
               ? 1
               : static_cast<int>(machine_.ranks_on(node).size());
  }
  [[nodiscard]] long count(int chunks) const { return static_cast<long>(chunks) * pieces_; }
  [[nodiscard]] double first_foreign() const { return between_.hop(); }

  /// What a rank is to get comes through its port inside the node or through the interface.
  [[nodiscard]] double into_rank(rank_id rank) const {
    auto const all = volume_.into_rank[rank.index()];
    auto const foreign = volume_.into_rank_foreign[rank.index()];
    auto const begin = all == foreign ? first_foreign() : 0.0;
    auto const ports = std::vector<opening>{
        {begin, inside_.busy, inside_.latency},
        {0, between_.busy, between_.latency, static_cast<int>(count(foreign))}};
    return time_for(count(all), ports);
  }

  /// What a rank owns leaves it once; the last piece must then reach all others that get it.
  [[nodiscard]] double out_of_rank(rank_id rank) const {
    auto const owned = volume_.out_of_rank[rank.index()];
    if (owned == 0) return 0;
    auto crossing = 0;
    for (auto const& chunk : volume_.chunks)
      crossing += chunk.owner == rank && chunk.nodes != 0 ? 1 : 0;
    auto ports = std::vector<opening>{{0, inside_.busy, 0}};
    if (crossing == owned)
      ports.push_back({0, between_.busy, 0});
    else if (crossing != 0)
      ports.push_back({0, between_.busy, 0, static_cast<int>(count(crossing))});
    auto const quick = crossing == 0 ? inside_
                                     : port{std::min(inside_.busy, between_.busy),
                                            std::min(inside_.latency, between_.latency)};
    auto fewest = std::numeric_limits<int>::max();
    for (auto const& chunk : volume_.chunks)
      if (chunk.owner == rank) fewest = std::min(fewest, chunk.ranks);
    if (crossing != owned && crossing != 0)
      fewest = 1;  // of copies at the interface nothing is known
    return reach(count(owned), ports, fewest, quick, [&](double time, auto push) {
      push(time);
      if (crossing != 0) push(time);
    });
  }

  /// All ranks of a node together: nobody receives before somebody has something to send.
  [[nodiscard]] double into_ranks_of(node_id node) const {
    auto total = 0L;
    auto receivers = std::size_t{0};
    for (auto const rank : machine_.ranks_on(node)) {
      total += count(volume_.into_rank[rank.index()]);
      receivers += volume_.into_rank[rank.index()] != 0 ? 1 : 0;
    }
    if (total == 0) return 0;
    auto const entering = count(volume_.into_node[node.index()]);
    auto senders = std::vector<double>{};
    for (auto const rank : machine_.ranks_on(node)) {
      auto const owns = std::ranges::any_of(volume_.chunks, [&](chunk_spread const& chunk) {
        return chunk.owner == rank && chunk.ranks_on[node.index()] != 0;
      });
      if (owns) senders.push_back(0);
    }
    if (entering != 0)
      for (int i = 0; i < interfaces(node); ++i) senders.push_back(first_foreign());
    auto ports = std::vector<opening>{};
    for (auto const begin : begins(std::move(senders), receivers, inside_))
      ports.push_back({begin, inside_.busy, inside_.latency});
    // a piece that enters the node reaches one of its ranks through the interface
    return time_for(total - entering, ports);
  }

  /// What leaves a node: ranks that own none of it get something to send from those that do. The
  /// last piece must then reach the other nodes, and in the last of them all ranks.
  [[nodiscard]] double out_of_node(node_id home) const {
    auto const leaving = volume_.out_of_node[home.index()];
    if (leaving == 0) return 0;
    auto owners = std::size_t{0};
    auto nodes = std::numeric_limits<int>::max();
    auto ranks = nodes;
    for (auto const rank : machine_.ranks_on(home)) {
      auto owns = false;
      for (auto const& chunk : volume_.chunks) {
        if (chunk.owner != rank || chunk.nodes == 0) continue;
        owns = true;
        nodes = std::min(nodes, chunk.nodes);
        for (auto const node : first_n<node_id>(machine_.nodes()))
          if (node != home && chunk.ranks_on[node.index()] != 0)
            ranks = std::min(ranks, chunk.ranks_on[node.index()]);
      }
      owners += owns ? 1 : 0;
    }
    auto ports = std::vector<opening>(interfaces(home) == 1 ? 1 : owners, {0, between_.busy, 0});
    if (auto const all = static_cast<std::size_t>(interfaces(home)); ports.size() < all)
      for (auto const begin : begins(std::vector<double>(owners), all - ports.size(), inside_))
        ports.push_back({begin + inside_.hop(), between_.busy, 0});
    auto const last = reach(count(leaving), ports, nodes, between_, [&](double time, auto push) {
      push(time);
      for (auto const begin :
           begins({time}, static_cast<std::size_t>(most_interfaces() - 1), inside_))
        push(begin + inside_.hop());
    });
    return last + spread(ranks - 1, inside_);
  }

  /// What enters a node; the last piece must then reach its ranks.
  [[nodiscard]] double into_node(node_id node) const {
    auto const entering = volume_.into_node[node.index()];
    if (entering == 0) return 0;
    auto fewest = std::numeric_limits<int>::max();
    for (auto const& chunk : volume_.chunks)
      if (machine_.node(chunk.owner) != node && chunk.ranks_on[node.index()] != 0)
        fewest = std::min(fewest, chunk.ranks_on[node.index()]);
    auto const ports = std::vector<opening>(static_cast<std::size_t>(interfaces(node)),
                                            {0, between_.busy, between_.latency});
    return time_for(count(entering), ports) + spread(fewest - 1, inside_);
  }

  /// All nodes together: an interface receives nothing before another one has something to send.
  [[nodiscard]] double into_nodes() const {
    if (volume_.between_nodes == 0) return 0;
    auto senders = std::vector<double>{};
    auto receivers = std::size_t{0};
    for (auto const node : first_n<node_id>(machine_.nodes())) {
      if (volume_.out_of_node[node.index()] != 0)
        for (int i = 0; i < interfaces(node); ++i) senders.push_back(0);
      if (volume_.into_node[node.index()] != 0)
        receivers += static_cast<std::size_t>(interfaces(node));
    }
    auto ports = std::vector<opening>{};
    // whoever gets something can have it sent on by all interfaces of its node
    auto free = std::priority_queue<double, std::vector<double>, std::greater<>>{
        std::greater<>{}, std::move(senders)};
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
    for (auto const node : first_n<node_id>(machine_.nodes()))
      most = std::max(most, interfaces(node));
    return most;
  }

  topology const& machine_;
  gather_volume const& volume_;
  int pieces_;
  port inside_{};
  port between_{};
};

}  // namespace fssdp::detail
