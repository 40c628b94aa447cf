// SPDX-License-Identifier: Apache-2.0
/// How long ranks take to send, if chunks were a fluid: a bound without pieces and latency.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/plan/transfer_plan.hpp"
#include "support/max_flow.hpp"

namespace support {

/// Every chunk leaves its owner once; the other copies are sent by any that have it in the end. So
/// no plan without relays takes less time than the ports need for the least uneven such division.
///
/// By sets of ranks: what the members of a set must send, over the speed of their ports; found as
/// the shortest time in which a flow from copies to ports carries all copies.
class fluid_egress {
 public:
  fluid_egress(fssdp::transfer_plan const& plan, double chunk_bytes)
      : topo_{plan.topology()}, bytes_{chunk_bytes} {
    for (auto const chunk : fssdp::chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
      auto members = std::vector{plan.owner(chunk)};
      for (auto const rank : plan.where().holders(chunk.expert))
        if (rank != plan.owner(chunk)) members.push_back(rank);
      if (members.size() > 1) chunks_.push_back(std::move(members));
    }
  }

  /// By halving: the shortest time in which all copies can be sent.
  [[nodiscard]] double seconds() const {
    if (chunks_.empty()) return 0;
    auto copies = 0.0;
    for (auto const& members : chunks_) copies += static_cast<double>(members.size() - 1);
    auto low = 0.0;
    auto high = copies * bytes_ / slowest();
    for (int step = 0; step < 45; ++step) {
      auto const middle = (low + high) / 2;
      (sent_in(middle) < copies - 1e-7 ? low : high) = middle;
    }
    return low;
  }

  /// The same on one node, by its definition: the set of ranks that needs the longest.
  [[nodiscard]] double seconds_of_all_sets() const {
    auto most = 0.0;
    for (unsigned set = 1; set < 1U << static_cast<unsigned>(topo_.ranks()); ++set) {
      auto const inside = [&](fssdp::rank_id rank) { return ((set >> rank.index()) & 1U) != 0; };
      auto copies = 0.0;
      for (auto const& members : chunks_)
        if (std::ranges::all_of(members, inside))
          copies += static_cast<double>(members.size() - 1);
        else if (inside(members.front()))
          copies += 1;
      auto speed = 0.0;
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo_.ranks()))
        if (inside(rank)) speed += topo_.port(rank).inside_bytes_per_second;
      most = std::max(most, copies * bytes_ / speed);
    }
    return most;
  }

 private:
  [[nodiscard]] double slowest() const {
    auto least = topo_.port(fssdp::rank_id{0}).inside_bytes_per_second;
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo_.ranks()))
      least = std::min(least, topo_.port(rank).inside_bytes_per_second);
    return least;
  }

  /// How many copies ports can send. First ones flow to their owner, others to any member, from
  /// ranks to the ports for their node, and to their interfaces where there are other nodes.
  [[nodiscard]] double sent_in(double seconds) const {
    auto const ranks = topo_.ranks();
    auto const chunks = static_cast<int>(chunks_.size());
    auto const source = 0;
    auto const sink = 1;
    auto const node_of_chunk = [](int c) { return 2 + c; };
    auto const node_of = [&](fssdp::rank_id rank) { return 2 + chunks + rank.value(); };
    auto const interface = [&](fssdp::rank_id rank) { return 2 + chunks + ranks + rank.value(); };
    auto network = flow_network{2 + chunks + 2 * ranks};
    auto const any = 1e9;
    for (int c = 0; c < chunks; ++c) {
      auto const& members = chunks_[static_cast<std::size_t>(c)];
      network.add(source, node_of(members.front()), 1);
      network.add(source, node_of_chunk(c), static_cast<double>(members.size()) - 2);
      for (auto const rank : members) network.add(node_of_chunk(c), node_of(rank), any);
    }
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks)) {
      auto const& port = topo_.port(rank);
      network.add(node_of(rank), sink, seconds * port.inside_bytes_per_second / bytes_);
      if (topo_.nodes() == 1) continue;
      network.add(node_of(rank), interface(topo_.interface_of(rank)), any);
      if (topo_.interface_of(rank) == rank)
        network.add(interface(rank), sink, seconds * port.between_bytes_per_second / bytes_);
    }
    return network.run(source, sink);
  }

  fssdp::topology const& topo_;
  double bytes_;
  std::vector<std::vector<fssdp::rank_id>> chunks_;  // owner first, then those that get it
};

}  // namespace support
