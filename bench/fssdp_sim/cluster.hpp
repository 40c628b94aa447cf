// SPDX-License-Identifier: Apache-2.0
/// The clusters that are simulated.
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "fssdp/topology/topology.hpp"

namespace sim {

/// A kind of cluster; bandwidths count one direction. NVLink's data sheets count both.
struct cluster_kind {
  std::string_view name;
  std::string_view device;
  double flops;           ///< that a device attains per second
  int devices_on_a_node;  ///< 0: all of them
  int default_devices;
  int most_devices;
  fssdp::port_bandwidth ports;
  fssdp::network_interface network;
};

inline constexpr auto cluster_kinds = std::array<cluster_kind, 5>{
    cluster_kind{
        "flat", "H100", 400e12, 0, 32, 4096, {450e9, 450e9}, fssdp::network_interface::per_rank},
    cluster_kind{
        "a", "V100", 50e12, 8, 32, 32, {150e9, 12.5e9}, fssdp::network_interface::per_node},
    cluster_kind{"b", "A100", 150e12, 8, 32, 32, {300e9, 50e9}, fssdp::network_interface::per_node},
    cluster_kind{
        "h100", "H100", 400e12, 8, 64, 4096, {450e9, 50e9}, fssdp::network_interface::per_rank},
    cluster_kind{
        "h200", "H200", 400e12, 8, 64, 4096, {450e9, 50e9}, fssdp::network_interface::per_rank}};

/// The kind of a name; null if there is none.
[[nodiscard]] constexpr cluster_kind const* cluster_named(std::string_view name) {
  auto const at = std::ranges::find(cluster_kinds, name, &cluster_kind::name);
  return at == cluster_kinds.end() ? nullptr : &*at;
}

/// @throws std::invalid_argument if the kind has no cluster of so many devices
[[nodiscard]] inline fssdp::topology make_cluster(cluster_kind const& kind, int devices) {
  auto const node = kind.devices_on_a_node;
  if (devices < 1 || devices > kind.most_devices || (node > 0 && devices % node != 0))
    throw std::invalid_argument{
        "--devices " + std::to_string(devices) + ": cluster " + std::string{kind.name} +
        " has 1 to " + std::to_string(kind.most_devices) +
        (node > 0 ? ", expected a multiple of the " + std::to_string(node) + " on each node"
                  : std::string{})};
  return fssdp::topology{{.nodes = node == 0 ? 1 : devices / node,
                          .ranks = devices,
                          .ports = kind.ports,
                          .network = kind.network}};
}

}  // namespace sim
