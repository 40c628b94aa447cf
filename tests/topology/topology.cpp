// SPDX-License-Identifier: Apache-2.0
/// Which rank is on which node.
#include "fssdp/topology/topology.hpp"

#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/lists.hpp"

using fssdp::node_id;
using fssdp::port_bandwidth;
using fssdp::rank_id;
using fssdp::topology;

namespace {

[[nodiscard]] topology on_nodes(std::vector<int> const& nodes) {
  auto node_of = std::vector<node_id>{};
  for (auto const node : nodes) node_of.emplace_back(node);
  return topology{node_of};
}

[[nodiscard]] std::vector<int> node_sizes(topology const& topo) {
  auto sizes = std::vector<int>{};
  for (auto const node : fssdp::first_n<node_id>(topo.nodes()))
    sizes.push_back(static_cast<int>(topo.ranks_on(node).size()));
  return sizes;
}

}  // namespace

TEST_CASE("consecutive ranks share a node, as evenly as it goes, for every shape") {
  for (int ranks = 1; ranks <= 33; ++ranks)
    for (int nodes = 1; nodes <= ranks; ++nodes) {
      CAPTURE(ranks, nodes);
      auto const topo = topology{{.nodes = nodes, .ranks = ranks}};
      REQUIRE(topo.ranks() == ranks);
      REQUIRE(topo.nodes() == nodes);
      auto expected = std::vector<int>(static_cast<std::size_t>(nodes), ranks / nodes);
      for (int node = 0; node < ranks % nodes; ++node) ++expected[static_cast<std::size_t>(node)];
      REQUIRE(node_sizes(topo) == expected);
      auto in_order = std::vector<int>{};
      for (auto const node : fssdp::first_n<node_id>(nodes))
        for (auto const rank : topo.ranks_on(node)) {
          in_order.push_back(rank.value());
          REQUIRE(topo.node(rank) == node);
        }
      REQUIRE(in_order == support::values(fssdp::first_n<rank_id>(ranks)));
    }
}

TEST_CASE("when nodes divide ranks, rank d sits on node floor(d / G)") {
  auto const topo = topology{{.nodes = 4, .ranks = 12}};
  for (auto const rank : fssdp::first_n<rank_id>(12))
    REQUIRE(topo.node(rank).value() == rank.value() / 3);
}

TEST_CASE("ranks may be on any node") {
  auto const topo = on_nodes({1, 0, 1, 2, 0});
  REQUIRE(topo.nodes() == 3);
  REQUIRE(support::values(topo.ranks_on(node_id{0})) == std::vector{1, 4});
  REQUIRE(support::values(topo.ranks_on(node_id{1})) == std::vector{0, 2});
  REQUIRE(support::values(topo.ranks_on(node_id{2})) == std::vector{3});
  REQUIRE(topo.same_node(rank_id{1}, rank_id{4}));
  REQUIRE(!topo.same_node(rank_id{0}, rank_id{4}));
}

TEST_CASE("a topology is a value") {
  REQUIRE(topology{} == topology{});
  REQUIRE(topology{{.nodes = 2, .ranks = 4}} == on_nodes({0, 0, 1, 1}));
  REQUIRE(topology{{.nodes = 2, .ranks = 4}} != on_nodes({0, 1, 0, 1}));
  REQUIRE(topology{{.nodes = 1, .ranks = 2, .ports = {1.0, 2.0}}} !=
          topology{{.nodes = 1, .ranks = 2}});
}

TEST_CASE("a shape may set any of its members, also only one") {
  REQUIRE(topology{{.ranks = 3}} == on_nodes({0, 0, 0}));
  REQUIRE(topology{{.nodes = 2, .ranks = 3}} == on_nodes({0, 0, 1}));
  REQUIRE(topology{{.nodes = 1}} == on_nodes({0}));
  REQUIRE(topology{{.ports = {3.0, 4.0}}} == topology{{node_id{0}}, {port_bandwidth{3.0, 4.0}}});
  REQUIRE(topology{{node_id{0}, node_id{1}}} == on_nodes({0, 1}));
  REQUIRE(topology{}.ranks() == 0);
}

TEST_CASE("one port for all, or one per rank") {
  auto const nodes = std::vector{node_id{0}, node_id{0}, node_id{1}};
  auto const same = topology{nodes, {port_bandwidth{3.0, 4.0}}};
  REQUIRE(same.port(rank_id{2}) == port_bandwidth{3.0, 4.0});
  auto const each = topology{nodes, {{1.0, 1.0}, {2.0, 2.0}, {3.0, 3.0}}};
  REQUIRE(each.port(rank_id{1}) == port_bandwidth{2.0, 2.0});
  REQUIRE_THROWS_AS(topology(nodes, {{1.0, 1.0}, {2.0, 2.0}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(topology(nodes, {{1.0, 1.0}, {2.0, 2.0}}),
                      mentions("2 ports") && mentions("3 ranks"));
}

TEST_CASE("an impossible topology is refused") {
  using shape = topology::shape;
  for (auto const& of : {shape{.nodes = 0, .ranks = 2}, shape{.nodes = 3, .ranks = 2},
                         shape{.nodes = -1, .ranks = 2}, shape{.nodes = 1, .ranks = 0}})
    REQUIRE_THROWS_AS(topology{of}, fssdp::argument_error);
  REQUIRE_THROWS_WITH((topology{{.nodes = 3, .ranks = 2}}),
                      mentions("3 nodes") && mentions("2 ranks"));
  REQUIRE_THROWS_AS(on_nodes({0, 2, 0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(on_nodes({0, 2, 0}), mentions("node 1") && mentions("no rank"));
  REQUIRE_THROWS_AS(on_nodes({0, -1}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(on_nodes({0, -1}), mentions("node -1"));
  // Before there are lists for as many nodes: those of the last one would take 48 GB.
  for (auto const node : {2, 3, 2'000'000'000}) {
    REQUIRE_THROWS_AS(on_nodes({0, node}), fssdp::argument_error);
    REQUIRE_THROWS_WITH(on_nodes({0, node}), mentions("node " + std::to_string(node)) &&
                                                 mentions("2 ranks; expected 0 to 1"));
  }
}

TEST_CASE("a rank reaches other nodes through its own interface, or through that of its node") {
  auto const nodes = std::vector{node_id{1}, node_id{0}, node_id{1}, node_id{0}};
  auto const interfaces = [&](fssdp::network_interface network) {
    auto const topo = topology{nodes, {{}}, network};
    REQUIRE(topo.network() == network);
    auto list = std::vector<int>{};
    for (auto const rank : fssdp::first_n<rank_id>(4))
      list.push_back(topo.interface_of(rank).value());
    return list;
  };
  REQUIRE(interfaces(fssdp::network_interface::per_rank) == std::vector{0, 1, 2, 3});
  REQUIRE(interfaces(fssdp::network_interface::per_node) == std::vector{0, 1, 0, 1});
  REQUIRE(topology{nodes} == topology{nodes, {{}}, fssdp::network_interface::per_rank});
  REQUIRE(topology{nodes} != topology{nodes, {{}}, fssdp::network_interface::per_node});
}

TEST_CASE("bandwidths that are not positive and costs that are negative are refused") {
  auto const nodes = std::vector{node_id{0}, node_id{0}};
  auto const refuses_ports = [&](port_bandwidth const& port, char const* value) {
    REQUIRE_THROWS_AS(topology(nodes, {{1, 1}, port}), fssdp::argument_error);
    REQUIRE_THROWS_WITH(topology(nodes, {{1, 1}, port}),
                        mentions(value) && mentions("expected more than 0"));
  };
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  refuses_ports({0, 7}, "of 0 and 7");
  refuses_ports({7, 0}, "of 7 and 0");
  refuses_ports({-2, 7}, "-2");
  refuses_ports({7, nan}, "nan");
  // a time that is computed from them has to fit
  auto const infinity = std::numeric_limits<double>::infinity();
  for (auto const beyond : {1e-300, 0.9e-3, 1.1e18, infinity}) {
    CAPTURE(beyond);
    for (auto const& port : {port_bandwidth{beyond, 7}, port_bandwidth{7, beyond}})
      REQUIRE_THROWS_WITH(topology(nodes, {{1, 1}, port}), mentions("0.001 to 1e+18"));
  }
  refuses_ports({1e-300, 7}, "1e-300");
  refuses_ports({7, infinity}, "inf");
  REQUIRE_NOTHROW(topology(nodes, {{1e-3, 1e-3}, {1e18, 1e18}}));
  REQUIRE_THROWS_AS((topology{{.nodes = 1, .ranks = 2, .ports = {0, 1}}}), fssdp::argument_error);

  auto const refuses_cost = [&](fssdp::message_cost const& cost, char const* value) {
    auto const make = [&] {
      return topology{nodes, {{}}, fssdp::network_interface::per_node, cost};
    };
    REQUIRE_THROWS_AS(make(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(make(), mentions(value) && mentions("expected 0 to"));
  };
  refuses_cost({-1, 2, 3}, "-1, 2 and 3");
  refuses_cost({1, -2, 3}, "1, -2 and 3");
  refuses_cost({1, 2, -3}, "1, 2 and -3");
  refuses_cost({nan, 2, 3}, "nan");
  for (auto const& cost : {fssdp::message_cost{infinity, 2, 3}, fssdp::message_cost{1, infinity, 3},
                           fssdp::message_cost{1, 2, infinity}})
    refuses_cost(cost, "inf");
  refuses_cost({1, 1e7, 3}, "0 to 1e+06");
  auto const cost = fssdp::message_cost{0, 0, 0};
  REQUIRE(topology{nodes, {{}}, fssdp::network_interface::per_node, cost}.cost() == cost);
  REQUIRE(topology{nodes, {{}}, fssdp::network_interface::per_rank, cost} != topology{nodes});
}

TEST_CASE("no topology means one node") {
  auto const topo = fssdp::topology_or_one_node({}, 3);
  REQUIRE(topo == topology{{.nodes = 1, .ranks = 3}});
  auto const given = topology{{.nodes = 2, .ranks = 3}};
  REQUIRE(fssdp::topology_or_one_node(given, 3) == given);
  REQUIRE_THROWS_AS(fssdp::topology_or_one_node(given, 4), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::topology_or_one_node(given, 4), mentions("3") && mentions("4"));
}
