// SPDX-License-Identifier: Apache-2.0
/// The time of a plan on ideal ports.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// When each transfer happens, in seconds from the start of the gather.
struct simulation {
  struct span {
    double start = 0;     ///< both ports begin
    double released = 0;  ///< both ports are idle again
    double arrival = 0;   ///< the destination has the piece and can pass it on
  };
  double seconds = 0;           ///< the last arrival
  std::vector<span> transfers;  ///< in canonical order
};

namespace detail {

/// The ports of a topology. Every rank has a port for its node and, alone or shared with its node,
/// an interface to other nodes; each sends and receives at the same time. Ports serve transfers one
/// by one, in the order of the calls of `play`.
class port_model {
 public:
  port_model(topology const& topo, message_cost const& cost, double piece_bytes)
      : topo_{topo},
        cost_{cost},
        bytes_{piece_bytes},
        out_free_(2 * static_cast<std::size_t>(topo.ranks())),
        in_free_(out_free_.size()) {}

  /// A transfer that its source can send from `ready` on, or of several pieces one after the other.
  /// @param part the share of the bytes of a piece that these have
  simulation::span play(rank_id source, rank_id destination, double ready, int pieces = 1,
                        double part = 1) {
    auto const used = of(source, destination, bytes_ * part);
    auto& out = out_free_[used.out];
    auto& in = in_free_[used.in];
    auto const start = std::max({ready, out, in});
    auto const released = start + pieces * used.busy;
    out = released;
    in = released;
    return {start, released, released + used.latency};
  }

 private:
  struct use {
    double busy;
    double latency;
    std::size_t out;  ///< index of a port: those inside nodes first, then interfaces
    std::size_t in;
  };
  [[nodiscard]] use of(rank_id source, rank_id destination, double bytes) const {
    if (topo_.same_node(source, destination)) {
      auto const rate = std::min(topo_.port(source).inside_bytes_per_second,
                                 topo_.port(destination).inside_bytes_per_second);
      return {bytes / rate + cost_.port_seconds, cost_.inside_latency_seconds, source.index(),
              destination.index()};
    }
    auto const ranks = static_cast<std::size_t>(topo_.ranks());
    auto const out = topo_.interface_of(source);
    auto const in = topo_.interface_of(destination);
    auto const rate =
        std::min(topo_.port(out).between_bytes_per_second, topo_.port(in).between_bytes_per_second);
    return {bytes / rate + cost_.port_seconds, cost_.between_latency_seconds, ranks + out.index(),
            ranks + in.index()};
  }

  topology const& topo_;
  message_cost cost_;
  double bytes_;  // of a piece
  std::vector<double> out_free_;
  std::vector<double> in_free_;
};

/// The size of an expert as a share of the largest one.
[[nodiscard]] inline double part_of_largest(transfer_plan const& plan, expert_id expert) {
  return static_cast<double>(plan.rows(expert)) / static_cast<double>(plan.most_rows());
}

/// simulate, with a different overhead per message than that of the plan's topology.
[[nodiscard]] inline simulation simulate_with(transfer_plan const& plan, std::size_t chunk_bytes,
                                              message_cost const& cost) {
  auto ports = port_model{plan.topology(), cost, static_cast<double>(chunk_bytes) / plan.pieces()};
  auto result = simulation{};
  result.transfers.reserve(plan.transfers().size());
  for (std::size_t i = 0; i < plan.transfers().size(); ++i) {
    auto const& t = plan.transfers()[i];
    auto const feeder = plan.feeders()[i];
    auto const ready =
        feeder < 0 ? 0.0 : result.transfers[static_cast<std::size_t>(feeder)].arrival;
    auto const part = part_of_largest(plan, t.chunk.expert);
    result.transfers.push_back(ports.play(t.source, t.destination, ready, 1, part));
    result.seconds = std::max(result.seconds, result.transfers.back().arrival);
  }
  return result;
}

}  // namespace detail

/// Simulates a gather of chunks of `chunk_bytes` (of fewer bytes where experts have fewer rows).
/// Ports serve their transfers one by one in canonical order, and a piece is passed on once it has
/// arrived.
///
/// The time is that of the longest chain of transfers, each of which waits for the previous one:
/// for a port, or for the piece. Reversed in time, the chains are the same: so the reduction of as
/// many bytes takes as long, unless it goes by another plan.
/// @pre verify accepts the plan
/// @cost O(transfers)
[[nodiscard]] inline simulation simulate(transfer_plan const& plan, std::size_t chunk_bytes) {
  return detail::simulate_with(plan, chunk_bytes, plan.topology().cost());
}

}  // namespace fssdp
