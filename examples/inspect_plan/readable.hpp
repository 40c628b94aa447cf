// SPDX-License-Identifier: Apache-2.0
/// Figures as people read them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "fssdp/topology/topology.hpp"
#include "inspection.hpp"
#include "program/readable.hpp"

namespace inspect {

using program::counted;
using program::readable_bytes;

[[nodiscard]] inline std::string case_line(inspection const& of) {
  return fmt::format("case {}, {} of {}, seed {}", cases::name_of(of.asked.of_case),
                     counted(static_cast<std::size_t>(of.plan.experts()), "expert"),
                     readable_bytes(of.asked.bytes), of.asked.seed);
}

[[nodiscard]] inline std::string machine_line(inspection const& of) {
  auto const& how = of.asked;
  auto const ranks = counted(static_cast<std::size_t>(how.ranks), "rank");
  auto const inside =
      fmt::format("{:g} GB/s + {:g} us inside", how.link_bandwidth / 1e9, how.link_latency * 1e6);
  if (how.nodes == 1) return fmt::format("{} on 1 node; {}", ranks, inside);
  return fmt::format("{} on {} nodes; {}, {:g} GB/s + {:g} us between, one interface per {}", ranks,
                     how.nodes, inside, how.nic_bandwidth / 1e9, how.nic_latency * 1e6,
                     how.nic_per == fssdp::network_interface::per_node ? "node" : "rank");
}

[[nodiscard]] inline std::string plan_line(inspection const& of) {
  auto relayed = std::size_t{0};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.plan.ranks()))
    relayed += of.plan.relayed(rank).size();
  return fmt::format("{}: {} in {}, experts in {} of {}, {} relayed", name_of(of.asked.plan),
                     counted(of.plan.transfers().size(), "transfer"),
                     counted(static_cast<std::size_t>(of.plan.rounds()), "round"),
                     counted(static_cast<std::size_t>(of.plan.pieces()), "piece"),
                     readable_bytes(of.bytes(0)), counted(relayed, "piece"));
}

[[nodiscard]] inline std::string time_line(inspection const& of) {
  if (of.plan.transfers().empty()) return "nothing moves";
  return fmt::format("{:.1f} us on ideal ports; {:.1f} % of bandwidth, {:.1f} % of the tight bound",
                     of.played.seconds * 1e6, of.efficiency() * 100, of.tight_efficiency() * 100);
}

[[nodiscard]] inline std::string bound_line(inspection const& of) {
  if (of.plan.transfers().empty()) return "0 us";
  return fmt::format("{:.1f} us by bandwidth ({}), {:.1f} us with latency and messages",
                     of.bound.seconds * 1e6, of.bound.resource, of.bound.tight_seconds * 1e6);
}

}  // namespace inspect
