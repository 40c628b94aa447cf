// SPDX-License-Identifier: Apache-2.0
/// Through which ports a transfer goes, and how long each of them is busy.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "fssdp/topology/topology.hpp"
#include "inspection.hpp"

namespace inspect {

/// What a rank has of each; an interface that a node shares is that of its first rank.
enum class port_kind { link_out, link_in, nic_out, nic_in };
inline constexpr auto port_kinds =
    std::array{port_kind::link_out, port_kind::link_in, port_kind::nic_out, port_kind::nic_in};

struct port {
  fssdp::rank_id rank;
  port_kind kind = port_kind::link_out;
};

[[nodiscard]] inline port sending_port(fssdp::topology const& topo, fssdp::transfer const& t) {
  if (topo.same_node(t.source, t.destination)) return {t.source, port_kind::link_out};
  return {topo.interface_of(t.source), port_kind::nic_out};
}
[[nodiscard]] inline port receiving_port(fssdp::topology const& topo, fssdp::transfer const& t) {
  if (topo.same_node(t.source, t.destination)) return {t.destination, port_kind::link_in};
  return {topo.interface_of(t.destination), port_kind::nic_in};
}

/// Whether a topology has this port: without other nodes no rank needs an interface.
[[nodiscard]] inline bool exists(fssdp::topology const& topo, port const& which) {
  auto const link = which.kind == port_kind::link_out || which.kind == port_kind::link_in;
  return link || (topo.nodes() > 1 && topo.interface_of(which.rank) == which.rank);
}

/// One value for every port of a topology.
template <class Value>
class per_port {
 public:
  explicit per_port(fssdp::topology const& topo, Value const& initial = {})
      : values_(static_cast<std::size_t>(topo.ranks()) * port_kinds.size(), initial) {}
  [[nodiscard]] Value& at(port const& which) {
    return values_[which.rank.index() * port_kinds.size() + static_cast<std::size_t>(which.kind)];
  }

 private:
  std::vector<Value> values_;
};

/// For how many seconds each port is busy.
[[nodiscard]] inline per_port<double> busy_seconds(inspection const& of) {
  auto const& topo = of.plan.topology();
  auto result = per_port<double>{topo};
  for (std::size_t i = 0; i < of.plan.transfers().size(); ++i) {
    auto const& t = of.plan.transfers()[i];
    auto const seconds = of.played.transfers[i].released - of.played.transfers[i].start;
    result.at(sending_port(topo, t)) += seconds;
    result.at(receiving_port(topo, t)) += seconds;
  }
  return result;
}

}  // namespace inspect
