// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/vector.h>

#include "costs.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/eplb_materialization.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/largest_overlap.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::placement;
using fssdp::table_layout;

/// Solves while other threads of Python run.
template <class Solver>
placement solved(Solver const& solve, array_like const& loads, table_layout const& layout) {
  auto const numbers = read_loads(loads);
  auto const released = nb::gil_scoped_release{};
  return solve(numbers, layout);
}

}  // namespace

void add_solvers(nb::module_& to) {
  using fssdp::topology;
  to.def("owners_only", [](array_like const& loads, table_layout const& layout) {
    return solved(fssdp::owners_only{}, loads, layout);
  });
  to.def("everywhere", [](array_like const& loads, table_layout const& layout) {
    return solved(fssdp::everywhere{}, loads, layout);
  });
  to.def(
      "sparse_materialization",
      [](array_like const& loads, table_layout const& layout, int overlap, int spare_slots,
         topology const* topo) {
        return solved(
            fssdp::sparse_materialization{
                .overlap = overlap, .spare_slots = spare_slots, .topology = topology_of(topo)},
            loads, layout);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  to.def(
      "eplb_materialization",
      [](array_like const& loads, table_layout const& layout, int spare_slots,
         topology const* topo) {
        return solved(
            fssdp::eplb_materialization{.spare_slots = spare_slots, .topology = topology_of(topo)},
            loads, layout);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  to.def(
      "largest_overlap",
      [](array_like const& loads, table_layout const& layout, nb::object const& budget,
         topology const* topo) {
        return solved(
            fssdp::largest_overlap{.budget = budget_of(budget), .topology = topology_of(topo)},
            loads, layout);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  to.def(
      "needs_based_materialization",
      [](array_like const& loads, table_layout const& layout, nb::object const& budget,
         topology const* topo) {
        return solved(fssdp::needs_based_materialization{.budget = budget_of(budget),
                                                         .topology = topology_of(topo)},
                      loads, layout);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  to.def(
      "cheapest_materialization",
      [](array_like const& loads, table_layout const& layout, nb::object const& budget,
         nb::object const& rates, double tokens, topology const* topo, int trials) {
        return solved(fssdp::cheapest_materialization{.budget = budget_of(budget),
                                                      .rates = rates_of(rates),
                                                      .tokens = tokens,
                                                      .topology = topology_of(topo),
                                                      .trials = trials},
                      loads, layout);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

}  // namespace python
