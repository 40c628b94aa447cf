// SPDX-License-Identifier: Apache-2.0
/// How long a plan takes on ideal ports.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// When everything happens, in seconds from the start of the gather.
struct simulation {
  struct span {
    double start = 0;     ///< both ports begin
    double released = 0;  ///< both ports are free again
    double arrival = 0;   ///< the destination has the piece and can pass it on
  };
  double seconds = 0;           ///< the last arrival
  std::vector<span> transfers;  ///< in canonical order
};

namespace detail {

/// The ports of a machine: every rank has one for its node and, alone or with its node, an
/// interface to others; each sends and receives at once.
class port_model {
 public:
  port_model(topology const& machine, std::size_t chunk_bytes, int pieces)
      : machine_{machine}, bytes_{static_cast<double>(chunk_bytes) / pieces} {}

  struct use {
    double busy;
    double latency;
    std::size_t out;  ///< ports: those inside nodes first, then interfaces
    std::size_t in;
  };
  [[nodiscard]] use of(transfer const& t) const {
    auto const& cost = machine_.cost();
    auto const& source = machine_.port(t.source);
    auto const& destination = machine_.port(t.destination);
    if (machine_.same_node(t.source, t.destination)) {
      auto const rate =
          std::min(source.inside_bytes_per_second, destination.inside_bytes_per_second);
      return {bytes_ / rate + cost.port_seconds, cost.inside_latency_seconds, t.source.index(),
              t.destination.index()};
    }
    auto const ranks = static_cast<std::size_t>(machine_.ranks());
    auto const out = machine_.interface_of(t.source);
    auto const in = machine_.interface_of(t.destination);
    auto const rate = std::min(machine_.port(out).between_bytes_per_second,
                               machine_.port(in).between_bytes_per_second);
    return {bytes_ / rate + cost.port_seconds, cost.between_latency_seconds, ranks + out.index(),
            ranks + in.index()};
  }
  [[nodiscard]] std::size_t ports() const { return 2 * static_cast<std::size_t>(machine_.ranks()); }

 private:
  topology const& machine_;
  double bytes_;  // of a piece
};

}  // namespace detail

/// Plays a gather of chunks of `chunk_bytes` through: ports serve their transfers one by one in
/// canonical order, and a piece is passed on only once it has arrived.
///
/// The time is that of the longest chain of transfers, each behind one that it waits for: at a
/// port, or for the piece. Read backwards, with the order of time reversed, the chains are the
/// same: the reduction of as many bytes takes as long, unless it goes by another plan.
/// @pre verify accepts the plan
/// @cost O(transfers)
[[nodiscard]] inline simulation simulate(transfer_plan const& plan, std::size_t chunk_bytes) {
  auto const model = detail::port_model{plan.cluster(), chunk_bytes, plan.pieces()};
  auto out_free = std::vector<double>(model.ports());
  auto in_free = std::vector<double>(model.ports());
  auto result = simulation{};
  result.transfers.reserve(plan.transfers().size());
  for (std::size_t i = 0; i < plan.transfers().size(); ++i) {
    auto const use = model.of(plan.transfers()[i]);
    auto const feeder = plan.feeders()[i];
    auto const ready =
        feeder < 0 ? 0.0 : result.transfers[static_cast<std::size_t>(feeder)].arrival;
    auto const start = std::max({ready, out_free[use.out], in_free[use.in]});
    auto const released = start + use.busy;
    out_free[use.out] = released;
    in_free[use.in] = released;
    result.transfers.push_back({start, released, released + use.latency});
    result.seconds = std::max(result.seconds, released + use.latency);
  }
  return result;
}

}  // namespace fssdp
