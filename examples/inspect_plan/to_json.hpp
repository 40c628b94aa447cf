// SPDX-License-Identifier: Apache-2.0
/// A plan as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "inspection.hpp"

namespace inspect {

namespace detail {

[[nodiscard]] inline nlohmann::ordered_json topology_to_json(options const& of) {
  return {{"ranks", of.ranks},
          {"nodes", of.nodes},
          {"link_bytes_per_second", of.link_bandwidth},
          {"nic_bytes_per_second", of.nic_bandwidth},
          {"nic_per", of.nic_per == fssdp::network_interface::per_node ? "node" : "rank"},
          {"link_latency_us", of.link_latency * 1e6},
          {"nic_latency_us", of.nic_latency * 1e6}};
}

[[nodiscard]] inline nlohmann::ordered_json transfer_to_json(inspection const& of,
                                                             std::size_t index) {
  auto const& t = of.plan.transfers()[index];
  auto const feeder = of.feeder(index);
  return {
      {"chunk", {{"expert", t.chunk.expert.value()}, {"slice", t.chunk.slice.value()}}},
      {"piece", t.piece},
      {"src", t.source.value()},
      {"dst", t.destination.value()},
      {"bytes", of.bytes(t.piece)},
      {"round", t.round},
      {"start_us", of.played.transfers[index].start * 1e6},
      {"arrival_us", of.played.transfers[index].arrival * 1e6},
      {"depends_on", feeder ? nlohmann::ordered_json(*feeder) : nlohmann::ordered_json(nullptr)}};
}

}  // namespace detail

/// Transfers are in canonical order: each depends on one before it, or on none (null).
[[nodiscard]] inline nlohmann::ordered_json to_json(inspection const& of) {
  auto transfers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < of.plan.transfers().size(); ++i)
    transfers.push_back(detail::transfer_to_json(of, i));
  return {{"case", std::string{cases::name_of(of.asked.of_case)}},
          {"seed", of.asked.seed},
          {"experts", of.plan.experts()},
          {"bytes", of.asked.bytes},
          {"topology", detail::topology_to_json(of.asked)},
          {"plan", std::string{name_of(of.asked.plan)}},
          {"rounds", of.plan.rounds()},
          {"pieces", of.plan.pieces()},
          {"simulated_us", of.played.seconds * 1e6},
          {"bound_us", of.bound.seconds * 1e6},
          {"tight_bound_us", of.bound.tight_seconds * 1e6},
          {"bound_by", of.bound.resource},
          {"transfers", std::move(transfers)}};
}

}  // namespace inspect
