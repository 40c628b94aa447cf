// SPDX-License-Identifier: Apache-2.0
/// A plan played once more, as the documentation says it: ports with queues, and ranks that wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/plan/transfer_plan.hpp"

namespace support {

/// When the transfers of a plan arrive, in its order.
struct played_plan {
  std::vector<double> arrivals;
  double seconds = 0;
};

/// One transfer as it travels: where from, where to, what it waits for.
struct journey {
  fssdp::rank_id from;
  fssdp::rank_id to;
  std::vector<std::size_t> behind;  ///< journeys that must have arrived
};

/// Every port has a queue of journeys. Whichever is first in both its queues, and has all that it
/// waits for, goes; that until all have gone.
[[nodiscard]] inline played_plan play(fssdp::topology const& topo, double piece_bytes,
                                      std::vector<journey> const& journeys) {
  using port = std::pair<std::string, fssdp::rank_id>;
  auto const ports_of = [&](journey const& j) {
    if (topo.same_node(j.from, j.to)) return std::pair{port{"out", j.from}, port{"in", j.to}};
    if (topo.network() == fssdp::network_interface::per_rank)
      return std::pair{port{"interface out", j.from}, port{"interface in", j.to}};
    return std::pair{port{"node out", topo.ranks_on(topo.node(j.from))[0]},
                     port{"node in", topo.ranks_on(topo.node(j.to))[0]}};
  };
  auto queues = std::map<port, std::deque<std::size_t>>{};
  for (std::size_t i = 0; i < journeys.size(); ++i) {
    auto const [out, in] = ports_of(journeys[i]);
    queues[out].push_back(i);
    queues[in].push_back(i);
  }
  auto idle_since = std::map<port, double>{};
  auto result = played_plan{std::vector<double>(journeys.size(), -1), 0};
  auto const ready = [&](std::size_t i) {
    auto const [out, in] = ports_of(journeys[i]);
    return queues[out].front() == i && queues[in].front() == i &&
           std::ranges::all_of(journeys[i].behind,
                               [&](std::size_t before) { return result.arrivals[before] >= 0; });
  };
  auto const go = [&](std::size_t i) {
    auto const& j = journeys[i];
    auto const [out, in] = ports_of(j);
    auto const inside = topo.same_node(j.from, j.to);
    auto const speed = [&](port const& of) {
      auto const& speeds = topo.port(of.second);
      return inside ? speeds.inside_bytes_per_second : speeds.between_bytes_per_second;
    };
    auto start = std::max(idle_since[out], idle_since[in]);
    for (auto const before : j.behind) start = std::max(start, result.arrivals[before]);
    auto const end =
        start + topo.cost().port_seconds + piece_bytes / std::min(speed(out), speed(in));
    idle_since[out] = idle_since[in] = end;
    queues[out].pop_front();
    queues[in].pop_front();
    result.arrivals[i] =
        end + (inside ? topo.cost().inside_latency_seconds : topo.cost().between_latency_seconds);
    result.seconds = std::max(result.seconds, result.arrivals[i]);
  };
  for (auto moved = true; moved;) {
    moved = false;
    for (auto i = journeys.size(); i-- > 0;)  // in any order: here from the end
      if (result.arrivals[i] < 0 && ready(i)) {
        go(i);
        moved = true;
      }
  }
  return result;
}

[[nodiscard]] inline played_plan naive_simulation(fssdp::transfer_plan const& plan,
                                                  std::size_t chunk_bytes) {
  auto journeys = std::vector<journey>{};
  auto brought = std::map<std::pair<fssdp::piece_id, fssdp::rank_id>, std::size_t>{};
  for (auto const& t : plan.transfers()) {
    auto const found = brought.find({t.what(), t.source});
    auto next = journey{t.source, t.destination, {}};
    if (found != brought.end()) next.behind = {found->second};
    brought[{t.what(), t.destination}] = journeys.size();
    journeys.push_back(std::move(next));
  }
  return play(plan.topology(), static_cast<double>(chunk_bytes) / plan.pieces(), journeys);
}

/// The time of a reduction: every transfer goes back, in the opposite order, and a sum waits for
/// all that it is made of.
[[nodiscard]] inline double naive_reduction_seconds(fssdp::transfer_plan const& plan,
                                                    std::size_t chunk_bytes) {
  auto journeys = std::vector<journey>{};
  auto summands = std::map<std::pair<fssdp::piece_id, fssdp::rank_id>, std::vector<std::size_t>>{};
  for (auto t = plan.transfers().rbegin(); t != plan.transfers().rend(); ++t) {
    auto const own = summands[{t->what(), t->destination}];
    summands[{t->what(), t->source}].push_back(journeys.size());
    journeys.push_back({t->destination, t->source, own});
  }
  return play(plan.topology(), static_cast<double>(chunk_bytes) / plan.pieces(), journeys).seconds;
}

}  // namespace support
