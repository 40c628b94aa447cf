// SPDX-License-Identifier: Apache-2.0
#include "costs.hpp"

#include <nanobind/stl/string.h>

#include <string>
#include <tuple>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::port_loads;
using fssdp::table_layout;

constexpr auto ports_text =
    R"(How many experts a placement moves through the ports of a topology, whatever the plan.

An expert enters each remote node that holds it once, leaves its own node at least once, and enters
every rank that holds it and does not own it.

Args:
    where: who holds what.
    layout: who owns what.
    topology: where the ranks sit; by default all on one node.)";

constexpr auto cost_text = R"(What an iteration of one layer costs, by a model of the topology.

Args:
    tokens: where the tokens go: TokenTraffic.
    ports: what experts move: PortLoads.
    rates: what a token and an expert cost.
    topology: with ranks.
    gathers: how often experts are gathered: 'once', or 'twice', for the backward pass again.)";

constexpr auto frequencies =
    std::array{std::pair{std::string_view{"once"}, fssdp::gathers::once},
               std::pair{std::string_view{"twice"}, fssdp::gathers::twice}};

std::string ports_repr(port_loads const& of) {
  return fssdp::detail::text("PortLoads(", of.between_nodes, " between nodes, at most ",
                             of.busiest_node(), " through a node and ", of.busiest_rank(),
                             " into a rank)");
}

std::string cost_repr(fssdp::layer_cost const& of) {
  return fssdp::detail::text("LayerCost(seconds=", of.seconds(), "; compute ", of.compute_seconds,
                             ", tokens ", of.token_seconds, ", exposed ", of.exposed_seconds, ")");
}

integers<1> int_array(std::vector<int> const& of) {
  return as_array(std::vector<std::int64_t>(of.begin(), of.end()));
}

nb::tuple budget_tuple(fssdp::materialization_budget const& of) {
  return nb::make_tuple(of.experts_in, of.experts_out, of.spare_slots);
}

}  // namespace

void add_costs(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<port_loads>(to, "PortLoads", ports_text)
      .def(
          "__init__",
          [](port_loads* self, fssdp::placement const& where, table_layout const& layout,
             fssdp::topology const* topology) {
            check_contains(where, layout);
            new (self) port_loads{where, layout, topology_of(topology)};
          },
          "where"_a, "layout"_a, "topology"_a = nb::none())
      .def_prop_ro(
          "into_node", [](port_loads const& self) { return int_array(self.into_node); },
          "Experts that enter each node: [nodes].")
      .def_prop_ro(
          "out_of_node", [](port_loads const& self) { return int_array(self.out_of_node); },
          "Experts owned on each node that others hold: [nodes].")
      .def_prop_ro(
          "into_rank", [](port_loads const& self) { return int_array(self.into_rank); },
          "Experts that each rank gets: [ranks].")
      .def_ro("between_nodes", &port_loads::between_nodes, "Crossings, over all nodes.")
      .def_prop_ro("busiest_node", &port_loads::busiest_node,
                   "The most that any node takes in or sends out.")
      .def_prop_ro("busiest_rank", &port_loads::busiest_rank,
                   "The most that any rank takes in: the slots that a placement needs.")
      .def("__repr__", ports_repr);
  nb::class_<fssdp::layer_cost>(to, "LayerCost", cost_text)
      .def(
          "__init__",
          [](fssdp::layer_cost* self, fssdp::token_traffic const& tokens, port_loads const& ports,
             nb::object const& rates, fssdp::topology const& topology, std::string const& gathers) {
            new (self) fssdp::layer_cost{tokens, ports, rates_of(rates), topology,
                                         named("gathers", gathers, frequencies)};
          },
          "tokens"_a, "ports"_a, "rates"_a, "topology"_a, nb::kw_only(), "gathers"_a = "once")
      .def_ro("compute_seconds", &fssdp::layer_cost::compute_seconds,
              "Three times the fullest device: forward, and twice that backward.")
      .def_ro("token_seconds", &fssdp::layer_cost::token_seconds,
              "Four times the busiest port: there and back, forward and backward.")
      .def_ro("gather_seconds", &fssdp::layer_cost::gather_seconds,
              "Of one gather; a reduction takes as long.")
      .def_ro("exposed_seconds", &fssdp::layer_cost::exposed_seconds,
              "What the windows do not hide of gathers and of the reduction.")
      .def_prop_ro("seconds", &fssdp::layer_cost::seconds, "All but the gather that is hidden.")
      .def("__repr__", cost_repr);
  to.def("gather_seconds", [](port_loads const& ports, fssdp::topology const& topology,
                              std::size_t expert_bytes, std::size_t piece_bytes) {
    return fssdp::gather_seconds(ports, topology, expert_bytes, piece_bytes);
  });
  to.def("hidden_budget", [](nb::object const& rates, fssdp::topology const& topology, int experts,
                             int spare_slots) {
    return budget_tuple(fssdp::hidden_budget(rates_of(rates), topology, experts, spare_slots));
  });
  to.def("paying_budget", [](array_like const& loads, nb::object const& rates,
                             fssdp::topology const& topology, int spare_slots) {
    return budget_tuple(
        fssdp::paying_budget(read_loads(loads), rates_of(rates), topology, spare_slots));
  });
  to.def("break_even_tokens",
         [](nb::object const& rates) { return fssdp::break_even_tokens(rates_of(rates)); });
  to.def("allows", [](nb::object const& budget, port_loads const& ports) {
    return budget_of(budget).allows(ports);
  });
  to.def("check_within", [](port_loads const& ports, nb::object const& budget) {
    fssdp::check_within(ports, budget_of(budget));
  });
}

}  // namespace python
