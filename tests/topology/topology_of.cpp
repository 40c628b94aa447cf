// SPDX-License-Identifier: Apache-2.0
/// Some ranks of a topology keep their nodes and their ports.
#include "fssdp/topology/topology_of.hpp"

#include <vector>

#include "catch.hpp"

using fssdp::node_id;
using fssdp::rank_id;
using fssdp::topology;
using fssdp::topology_of;

TEST_CASE("some ranks of a topology are on the nodes, and have the ports, that they had") {
  using ranks = std::vector<rank_id>;
  auto const all = topology{{node_id{0}, node_id{1}, node_id{2}, node_id{1}},
                            {{1e9, 1e8}, {2e9, 2e8}, {3e9, 3e8}, {4e9, 4e8}},
                            fssdp::network_interface::per_node,
                            {.port_seconds = 1e-3}};
  auto const some = topology_of(all, ranks{rank_id{1}, rank_id{2}, rank_id{3}});
  REQUIRE(some == topology{{node_id{0}, node_id{1}, node_id{0}},
                           {{2e9, 2e8}, {3e9, 3e8}, {4e9, 4e8}},
                           fssdp::network_interface::per_node,
                           {.port_seconds = 1e-3}});
  REQUIRE_THROWS_WITH(topology_of(all, ranks{}), mentions("no ranks"));
  REQUIRE_THROWS_WITH(topology_of(all, ranks{rank_id{4}}), mentions("rank 4; expected 0 to 3"));
  REQUIRE_THROWS_WITH(topology_of(all, ranks{rank_id{1}, rank_id{1}}),
                      mentions("expected ascending ranks"));
}
