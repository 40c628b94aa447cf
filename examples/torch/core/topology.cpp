// SPDX-License-Identifier: Apache-2.0
#include "fssdp/topology/topology.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "module.hpp"

namespace python {
namespace {

constexpr auto topology_text = R"(Which node each rank sits on, and how fast its ports are.

Either ``ranks`` on ``nodes`` (consecutive ranks share a node, as evenly as it goes), or
``node_of``: [ranks], the node of each rank, numbered from 0 without gaps.

Args:
    ranks: how many ranks there are.
    nodes: on how many nodes they sit.
    node_of: [ranks], in place of the two.
    inside_bytes_per_second: of a rank's port to ranks of its node, each way at once; one number,
        or [ranks].
    between_bytes_per_second: of its port to other nodes, likewise.
    network: who has a network interface: 'per_rank', or 'per_node' where the ranks of a node share
        one.
    inside_latency_seconds: of a message to a rank of the same node, beside its bytes.
    between_latency_seconds: of one to another node.
    port_seconds: for which a message keeps both its ports busy, beside its bytes.

Raises:
    ArgumentError: on a gap in the nodes, a bandwidth that is not from 1e-3 to 1e18 bytes per
        second, or a cost that is not from 0 to 1e6 seconds.)";

constexpr auto networks =
    std::array{std::pair{std::string_view{"per_rank"}, fssdp::network_interface::per_rank},
               std::pair{std::string_view{"per_node"}, fssdp::network_interface::per_node}};

std::string network_name(fssdp::topology const& of) {
  return of.network() == fssdp::network_interface::per_rank ? "per_rank" : "per_node";
}

std::vector<fssdp::port_bandwidth> ports_of(std::vector<double> inside,
                                            std::vector<double> between) {
  auto const ports = std::max(inside.size(), between.size());
  if (inside.size() == 1) inside.resize(ports, inside.front());
  if (between.size() == 1) between.resize(ports, between.front());
  fssdp::detail::require(inside.size() == between.size(), "Topology: inside_bytes_per_second of ",
                         inside.size(), " ranks and between_bytes_per_second of ", between.size(),
                         "; expected equally many, or one number for all");
  auto result = std::vector<fssdp::port_bandwidth>{};
  for (std::size_t rank = 0; rank < ports; ++rank)
    result.push_back(
        {.inside_bytes_per_second = inside[rank], .between_bytes_per_second = between[rank]});
  return result;
}

std::vector<fssdp::node_id> nodes_of(std::optional<int> ranks, std::optional<int> nodes,
                                     std::optional<array_like> const& node_of) {
  fssdp::detail::require(ranks.has_value() != node_of.has_value(), "Topology: expected either ",
                         "ranks (and nodes) or node_of");
  auto result = std::vector<fssdp::node_id>{};
  if (node_of.has_value()) {
    fssdp::detail::require(!nodes.has_value(),
                           "Topology: node_of and nodes; expected node_of alone");
    for (auto const node : read_ints(*node_of, "node_of")) result.emplace_back(node);
    return result;
  }
  auto const spread = fssdp::topology{{.nodes = nodes.value_or(1), .ranks = *ranks}};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(*ranks))
    result.push_back(spread.node(rank));
  return result;
}

std::vector<double> bandwidths(fssdp::topology const& of, double fssdp::port_bandwidth::*kind) {
  auto values = std::vector<double>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks()))
    values.push_back(of.port(rank).*kind);
  return values;
}

std::vector<fssdp::node_id> node_table(fssdp::topology const& of) {
  auto nodes = std::vector<fssdp::node_id>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks())) nodes.push_back(of.node(rank));
  return nodes;
}

std::string topology_repr(fssdp::topology const& of) {
  auto const& port = of.port(fssdp::rank_id{0});
  auto const unequal = of != fssdp::topology{node_table(of), {port}, of.network(), of.cost()};
  return fssdp::detail::text("Topology(ranks=", of.ranks(), ", nodes=", of.nodes(),
                             ", inside_bytes_per_second=", port.inside_bytes_per_second,
                             ", between_bytes_per_second=", port.between_bytes_per_second,
                             ", network='", network_name(of), "')",
                             unequal ? " with unequal ports: those of rank 0" : "");
}

}  // namespace

void add_topology(nb::module_& to) {
  using namespace nb::literals;
  using fssdp::topology;
  auto const port = fssdp::port_bandwidth{};
  auto const cost = fssdp::message_cost{};
  nb::class_<topology>(to, "Topology", topology_text)
      .def(
          "__init__",
          [](topology* self, std::optional<int> ranks, std::optional<int> nodes,
             std::optional<array_like> const& node_of, array_like const& inside,
             array_like const& between, std::string const& network, double inside_latency,
             double between_latency, double port_seconds) {
            new (self) topology{nodes_of(ranks, nodes, node_of),
                                ports_of(read_reals(inside, "inside_bytes_per_second"),
                                         read_reals(between, "between_bytes_per_second")),
                                named("network", network, networks),
                                {.inside_latency_seconds = inside_latency,
                                 .between_latency_seconds = between_latency,
                                 .port_seconds = port_seconds}};
          },
          nb::kw_only(), "ranks"_a = nb::none(), "nodes"_a = nb::none(), "node_of"_a = nb::none(),
          "inside_bytes_per_second"_a = port.inside_bytes_per_second,
          "between_bytes_per_second"_a = port.between_bytes_per_second, "network"_a = "per_rank",
          "inside_latency_seconds"_a = cost.inside_latency_seconds,
          "between_latency_seconds"_a = cost.between_latency_seconds,
          "port_seconds"_a = cost.port_seconds)
      .def_prop_ro("ranks", &topology::ranks)
      .def_prop_ro("nodes", &topology::nodes)
      .def_prop_ro(
          "node_of", [](topology const& self) { return index_array(node_table(self)); },
          "The node of each rank: [ranks].")
      .def_prop_ro(
          "inside_bytes_per_second",
          [](topology const& self) {
            return as_array(bandwidths(self, &fssdp::port_bandwidth::inside_bytes_per_second));
          },
          "Of each rank's port to ranks of its node: [ranks].")
      .def_prop_ro(
          "between_bytes_per_second",
          [](topology const& self) {
            return as_array(bandwidths(self, &fssdp::port_bandwidth::between_bytes_per_second));
          },
          "Of each rank's port to other nodes: [ranks].")
      .def_prop_ro("network", network_name, "'per_rank' or 'per_node'.")
      .def_prop_ro("inside_latency_seconds",
                   [](topology const& self) { return self.cost().inside_latency_seconds; })
      .def_prop_ro("between_latency_seconds",
                   [](topology const& self) { return self.cost().between_latency_seconds; })
      .def_prop_ro("port_seconds", [](topology const& self) { return self.cost().port_seconds; })
      .def(
          "ranks_on",
          [](topology const& self, int node) {
            return index_array(self.ranks_on(checked<fssdp::node_id>("node", node, self.nodes())));
          },
          "node"_a, "The ranks of a node, ascending.")
      .def(
          "same_node",
          [](topology const& self, int a, int b) {
            return self.same_node(rank_of(a, self.ranks()), rank_of(b, self.ranks()));
          },
          "a"_a, "b"_a, "Whether two ranks sit on one node.")
      .def(
          "interface_of",
          [](topology const& self, int rank) {
            return self.interface_of(rank_of(rank, self.ranks())).value();
          },
          "rank"_a, "The rank through whose interface a rank reaches other nodes.")
      .def(
          "node_bandwidth",
          [](topology const& self, int node) {
            return fssdp::node_bandwidth(self, checked<fssdp::node_id>("node", node, self.nodes()));
          },
          "node"_a, "Bytes per second through all interfaces of a node, each way.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", topology_repr)
      .def("__getstate__",
           [](topology const& self) {
             auto const& message = self.cost();
             return nb::make_tuple(
                 index_array(node_table(self)),
                 as_array(bandwidths(self, &fssdp::port_bandwidth::inside_bytes_per_second)),
                 as_array(bandwidths(self, &fssdp::port_bandwidth::between_bytes_per_second)),
                 network_name(self), message.inside_latency_seconds,
                 message.between_latency_seconds, message.port_seconds);
           })
      .def("__setstate__",
           [](topology& self, nb::tuple const& state) {
             auto const array = [&](int at) { return array_like{nb::object{state[at]}}; };
             auto nodes = std::vector<fssdp::node_id>{};
             for (auto const node : read_ints(array(0), "node_of")) nodes.emplace_back(node);
             new (&self) topology{std::move(nodes),
                                  ports_of(read_reals(array(1), "inside_bytes_per_second"),
                                           read_reals(array(2), "between_bytes_per_second")),
                                  named("network", nb::cast<std::string>(state[3]), networks),
                                  {.inside_latency_seconds = nb::cast<double>(state[4]),
                                   .between_latency_seconds = nb::cast<double>(state[5]),
                                   .port_seconds = nb::cast<double>(state[6])}};
           })
      .attr("__hash__") = nb::none();
}

}  // namespace python
