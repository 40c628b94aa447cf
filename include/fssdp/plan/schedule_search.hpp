// SPDX-License-Identifier: Apache-2.0
/// The search for a schedule: how chunks are cut, and when each piece is sent where.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/late_binding.hpp"
#include "fssdp/plan/piece_demand.hpp"
#include "fssdp/plan/possible_cuts.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// How many pieces a rank can store in this many bytes, whatever their type: a piece may be longer
/// than others, as it begins at a multiple of piece_granularity, and memory is divided at cache
/// lines.
[[nodiscard]] inline std::size_t most_pieces_within(std::size_t bytes, std::size_t chunk_bytes,
                                                    int pieces) {
  constexpr auto longer = piece_granularity * sizeof(double);
  auto const piece = pieces == 1
                         ? chunk_bytes
                         : std::min(chunk_bytes, slice_elements(chunk_bytes, pieces) + longer);
  return (bytes - std::min(bytes, cache_line - 1)) / piece;
}

/// How long pieces take on the slowest ports of a topology.
struct piece_times {
  tick_length tick;
  piece_time inside;
  piece_time between;

  piece_times(piece_demand const& demand, double chunk_bytes)
      : tick{most_seconds(demand, chunk_bytes)} {
    auto const& topo = demand.topo();
    auto const& cost = topo.cost();
    auto const bytes = chunk_bytes / demand.pieces();
    auto const time = [&](double port_bandwidth::*rate, double latency) {
      return piece_time{tick.of(bytes / slowest(topo, rate) + cost.port_seconds), tick.of(latency)};
    };
    inside = time(&port_bandwidth::inside_bytes_per_second, cost.inside_latency_seconds);
    between = time(&port_bandwidth::between_bytes_per_second, cost.between_latency_seconds);
  }

 private:
  /// The time to send all pieces to every rank, one after the other.
  [[nodiscard]] static double most_seconds(piece_demand const& demand, double chunk_bytes) {
    auto const& topo = demand.topo();
    auto const& cost = topo.cost();
    auto const rate = std::min(slowest(topo, &port_bandwidth::inside_bytes_per_second),
                               slowest(topo, &port_bandwidth::between_bytes_per_second));
    auto const each = chunk_bytes / demand.pieces() / rate + cost.port_seconds +
                      std::max(cost.inside_latency_seconds, cost.between_latency_seconds);
    return static_cast<double>(demand.items()) * topo.ranks() * each;
  }
  [[nodiscard]] static double slowest(topology const& topo, double port_bandwidth::*rate) {
    auto least = std::numeric_limits<double>::infinity();
    for (auto const rank : first_n<rank_id>(topo.ranks()))
      least = std::min(least, topo.port(rank).*rate);
    return least;
  }
};

/// Replaces each of some nonnegative numbers by its rank among the different ones.
[[nodiscard]] inline std::vector<int> without_gaps(std::vector<ticks> const& numbers) {
  auto ranks = std::vector<int>(numbers.size());
  if (numbers.empty()) return ranks;
  auto const most = std::ranges::max(numbers);
  if (most < static_cast<ticks>(4 * numbers.size())) {
    auto smaller = std::vector<int>(static_cast<std::size_t>(most) + 2);
    for (auto const n : numbers) smaller[static_cast<std::size_t>(n) + 1] = 1;
    std::partial_sum(smaller.begin(), smaller.end(), smaller.begin());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ranks[i] = smaller[static_cast<std::size_t>(numbers[i])];
    return ranks;
  }
  auto sorted = numbers;  // a large range with few numbers in it
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ranks[i] = static_cast<int>(std::ranges::lower_bound(sorted, numbers[i]) - sorted.begin());
  return ranks;
}

/// Flows as transfers: in order of their start, and in rounds of about the time of a piece on the
/// slowest link. A rank passes a piece on in one round, after the round in which it receives it.
[[nodiscard]] inline std::vector<transfer> as_transfers(piece_demand const& demand,
                                                        std::vector<flow> const& flows,
                                                        ticks round_time) {
  auto const at = [](auto& list, int index) -> auto& {
    return list[static_cast<std::size_t>(index)];
  };
  constexpr auto unknown = ticks{-1};
  auto round = std::vector<ticks>(flows.size());
  auto passed_on = std::vector<ticks>(flows.size(), unknown);  // in which round, by its receiver
  auto first_sent = std::vector<ticks>(static_cast<std::size_t>(demand.items()), unknown);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    auto const& f = flows[i];
    auto& when = f.feeder < 0 ? at(first_sent, f.item) : at(passed_on, f.feeder);
    if (when < 0) when = f.start / std::max<ticks>(round_time, 1);
    if (f.feeder >= 0) when = std::max(when, at(round, f.feeder) + 1);
    round[i] = when;
  }
  auto const number = without_gaps(round);
  auto transfers = std::vector<transfer>(flows.size());
  for (std::size_t i = 0; i < flows.size(); ++i) {
    auto const piece = demand.piece(flows[i].item);
    transfers[i] = {number[i],   piece.chunk,        flows[i].source, flows[i].destination,
                    piece.index, static_cast<int>(i)};
  }
  return transfers;
}

/// More pieces must be faster by this factor: fewer are sent in fewer messages, and reductions of
/// them come closer to the simulated time.
inline constexpr auto least_gain = 1.005;

/// Tries one cut after the other and keeps the fastest; of those that are about as fast, that into
/// the fewest pieces.
class schedule_search {
 public:
  schedule_search(transfer_plan const& plan, std::size_t chunk_bytes, relaying how,
                  sender_order senders)
      : plan_{plan}, bytes_{static_cast<double>(chunk_bytes)}, how_{how}, senders_{senders} {}

  /// Tries the coarse cut, then others that have fewer than `effort` transfers together: fewer
  /// pieces, and more pieces if none of these has gained. Each until two cuts have not gained.
  void consider(possible_cuts const& cuts, std::size_t effort) {
    consider(cuts.coarse);
    auto const per_piece = static_cast<double>(transfers_->size()) / cuts.coarse;
    auto left = static_cast<double>(effort);
    auto const consider_all = [&](std::vector<int> const& several) {
      auto without_gain = 0;
      for (auto const pieces : several) {
        auto const transfers = per_piece * pieces;
        if (transfers >= left) continue;
        left -= transfers;
        if (!consider(pieces) && ++without_gain == 2) return;
      }
    };
    consider_all(cuts.fewer);
    if (pieces_ == cuts.coarse) consider_all(cuts.more);
  }
  /// @return whether this cut is kept
  bool consider(int pieces) {
    auto demand = piece_demand{plan_, pieces, how_};
    auto const times = piece_times{demand, bytes_};
    auto const played =
        late_binding{demand, times.inside, times.between, senders_ == sender_order::busiest_first};
    auto const seconds = times.tick.seconds(played.end());
    least_ = std::min(least_, seconds);
    auto const enough = least_gain * least_;
    if (seconds > enough || (seconds_ <= enough && pieces > pieces_)) return false;
    seconds_ = seconds;
    pieces_ = pieces;
    auto const several_nodes = plan_.topology().nodes() > 1;
    transfers_ =
        as_transfers(demand, played.flows(),
                     std::max(times.inside.busy, several_nodes ? times.between.busy : ticks{0}));
    return true;
  }
  [[nodiscard]] transfer_plan take() { return plan_.realised_by(std::move(*transfers_), pieces_); }

 private:
  transfer_plan const& plan_;
  double bytes_;
  relaying how_;
  sender_order senders_;
  double least_ = std::numeric_limits<double>::infinity();    // seconds of the fastest cut
  double seconds_ = std::numeric_limits<double>::infinity();  // of the one that is kept
  int pieces_ = 0;
  std::optional<std::vector<transfer>> transfers_;
};

/// The largest number of transfers of a schedule: to all holders of an expert, and to one relay on
/// every node.
[[nodiscard]] inline double most_transfers(transfer_plan const& plan, std::size_t pieces) {
  auto chunks = 0.0;
  auto deliveries = 0.0;
  auto last = chunk_id{expert_id{-1}};
  for_each_delivery(plan, plan.where(), [&](chunk_id chunk, rank_id, rank_id) {
    if (chunk != last) ++chunks;
    last = chunk;
    ++deliveries;
  });
  return (deliveries + chunks * plan.topology().nodes()) * static_cast<double>(pieces);
}

}  // namespace fssdp::detail
