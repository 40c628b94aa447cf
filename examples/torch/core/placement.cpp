// SPDX-License-Identifier: Apache-2.0
#include "fssdp/placement/placement.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::placement;
using fssdp::table_layout;

constexpr auto placement_text = R"(Who computes with which experts, for one iteration.

It contains a layout: every expert is held by its owner, and by all other ranks that are named. What a rank
holds and does not own is a replica. To hold an expert is to hold all of it.

Args:
    layout: the owners.
    held: [experts, ranks] of bool, owners included; by default every expert is with its owner
        alone.

Raises:
    ArgumentError: if ``held`` has another shape, or an expert's owner does not hold it.)";

constexpr auto physical_text =
    R"(The expert of each slot of each rank: the form in which inference engines keep placements.

Every rank has as many slots, an expert may have several on one, every expert has at least one.
This is physical_to_logical (phy2log) of EPLB, vLLM and SGLang.

Args:
    physical_to_logical: [ranks * slots_per_rank], rank by rank.
    experts: how many experts there are.
    ranks: how many ranks.

Raises:
    ArgumentError: if the slots do not divide by the ranks, or an expert has no slot, or a slot no
        expert.)";

constexpr auto uses =
    std::array{std::pair{std::string_view{"remote"}, fssdp::slot_use::remote},
               std::pair{std::string_view{"materialized"}, fssdp::slot_use::materialized}};

std::vector<bool> held_table(placement const& of) {
  auto held = std::vector<bool>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.experts()))
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks()))
      held.push_back(of.holds(rank, expert));
  return held;
}
numpy_array<bool, 2> held_array(placement const& of) {
  return boolean_array(held_table(of), static_cast<std::size_t>(of.experts()),
                       static_cast<std::size_t>(of.ranks()));
}

/// @throws fssdp::argument_error if an expert's owner does not hold it
placement placement_from(table_layout const& layout, array_like const& held) {
  auto const experts = static_cast<std::size_t>(layout.experts());
  auto const ranks = static_cast<std::size_t>(layout.ranks());
  auto const table = read_booleans(held, "held", experts, ranks);
  auto where = placement{layout};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts())) {
    where.remove(expert, layout.owner(expert));
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(layout.ranks()))
      if (table[expert.index() * ranks + rank.index()]) where.add(expert, rank);
  }
  check_contains(where, layout);
  return where;
}

std::string placement_repr(placement const& of) {
  auto held = 0;
  auto most = 0;
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks())) {
    held += of.held_count(rank);
    most = std::max(most, of.held_count(rank));
  }
  return fssdp::detail::text("Placement(experts=", of.experts(), ", ranks=", of.ranks(), "; ",
                             held - of.experts(), " replicas, at most ", most,
                             " experts on a rank)");
}

std::string physical_repr(fssdp::physical_experts const& of) {
  return fssdp::detail::text("PhysicalExperts(experts=", of.experts(), ", ranks=", of.ranks(),
                             ", slots_per_rank=", of.slots_per_rank(), ")");
}

fssdp::physical_experts physical_from(array_like const& logical, int experts, int ranks) {
  auto slots = std::vector<fssdp::expert_id>{};
  for (auto const expert : read_ints(logical, "physical_to_logical")) slots.emplace_back(expert);
  return {{.experts = experts, .ranks = ranks}, std::move(slots)};
}

}  // namespace

void add_placement(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<placement>(to, "Placement", placement_text)
      .def(
          "__init__",
          [](placement* self, table_layout const& layout, std::optional<array_like> const& held) {
            new (self)
                placement{held.has_value() ? placement_from(layout, *held) : placement{layout}};
          },
          "layout"_a, "held"_a = nb::none())
      .def_prop_ro("experts", &placement::experts)
      .def_prop_ro("ranks", &placement::ranks)
      .def_prop_ro("held", held_array, "Who holds what: [experts, ranks] of bool, a copy.")
      .def_prop_ro(
          "held_counts",
          [](placement const& self) {
            auto counts = std::vector<std::int64_t>{};
            for (auto const rank : fssdp::first_n<fssdp::rank_id>(self.ranks()))
              counts.push_back(self.held_count(rank));
            return as_array(std::move(counts));
          },
          "How many experts each rank holds: [ranks].")
      .def(
          "add",
          [](placement& self, int expert, int rank) {
            self.add(fssdp::expert_id{expert}, fssdp::rank_id{rank});
          },
          "expert"_a, "rank"_a, "Lets a rank hold an expert, too.")
      .def(
          "remove",
          [](placement& self, int expert, int rank) {
            self.remove(expert_of(expert, self.experts()), rank_of(rank, self.ranks()));
          },
          "expert"_a, "rank"_a, "Lets a rank no longer hold an expert that it does not own.")
      .def(
          "holds",
          [](placement const& self, int rank, int expert) {
            return self.holds(rank_of(rank, self.ranks()), expert_of(expert, self.experts()));
          },
          "rank"_a, "expert"_a)
      .def(
          "holders",
          [](placement const& self, int expert) {
            return index_array(self.holders(expert_of(expert, self.experts())));
          },
          "expert"_a, "The ranks that hold an expert, ascending.")
      .def(
          "copy", [](placement const& self) { return self; }, "Another one, equal so far.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", placement_repr)
      .def("__getstate__", [](placement const& self) { return nb::make_tuple(held_array(self)); })
      .def(
          "__setstate__",
          [](placement& self, nb::tuple const& state) {
            auto const held = nb::object{state[0]};
            auto const experts = nb::cast<std::size_t>(held.attr("shape")[0]);
            auto const ranks = nb::cast<std::size_t>(held.attr("shape")[1]);
            auto const table = read_booleans({held}, "held", experts, ranks);
            auto owners = std::vector<fssdp::rank_id>{};  // some holder of each
            for (std::size_t e = 0; e < experts; ++e) {
              auto rank = std::size_t{0};
              while (rank + 1 < ranks && !table[e * ranks + rank]) ++rank;
              owners.emplace_back(rank);
            }
            auto const layout = table_layout{{.ranks = static_cast<int>(ranks)}, std::move(owners)};
            new (&self) placement{placement_from(layout, {held})};
          })
      .attr("__hash__") = nb::none();
  to.def("fit_slots", [](placement const& where, table_layout const& layout,
                         array_like const& loads, int slots, std::string const& use) {
    check_contains(where, layout);
    return fssdp::fit_slots(where, layout, read_loads(loads), slots, named("use", use, uses));
  });
}

void add_physical_experts(nb::module_& to) {
  using namespace nb::literals;
  using fssdp::physical_experts;
  nb::class_<physical_experts>(to, "PhysicalExperts", physical_text)
      .def(
          "__init__",
          [](physical_experts* self, array_like const& logical, int experts, int ranks) {
            new (self) physical_experts{physical_from(logical, experts, ranks)};
          },
          "physical_to_logical"_a, nb::kw_only(), "experts"_a, "ranks"_a)
      .def_prop_ro("experts", &physical_experts::experts)
      .def_prop_ro("ranks", &physical_experts::ranks)
      .def_prop_ro("slots_per_rank", &physical_experts::slots_per_rank)
      .def_prop_ro(
          "physical_to_logical",
          [](physical_experts const& self) { return index_array(self.physical_to_logical()); },
          "The expert of each slot: [ranks * slots_per_rank].")
      .def_prop_ro(
          "logical_count",
          [](physical_experts const& self) {
            auto counts = std::vector<std::int64_t>{};
            for (auto const expert : fssdp::first_n<fssdp::expert_id>(self.experts()))
              counts.push_back(self.logical_count(expert));
            return as_array(std::move(counts));
          },
          "How many slots each expert has: [experts].")
      .def(
          "logical_to_physical",
          [](physical_experts const& self, int expert) {
            return index_array(self.logical_to_physical(expert_of(expert, self.experts())));
          },
          "expert"_a, "The slots of an expert, ascending.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", physical_repr)
      .def("__getstate__",
           [](physical_experts const& self) {
             return nb::make_tuple(index_array(self.physical_to_logical()), self.experts(),
                                   self.ranks());
           })
      .def("__setstate__",
           [](physical_experts& self, nb::tuple const& state) {
             new (&self) physical_experts{physical_from(
                 {nb::object{state[0]}}, nb::cast<int>(state[1]), nb::cast<int>(state[2]))};
           })
      .attr("__hash__") = nb::none();
  to.def("layout_of", [](physical_experts const& slots) { return layout_of(slots); });
  to.def("placement_of", [](physical_experts const& slots, table_layout const& layout) {
    return placement_of(slots, layout);
  });
  to.def("physical_of",
         [](placement const& where, table_layout const& layout, std::optional<int> slots_per_rank) {
           return slots_per_rank.has_value() ? physical_of(where, layout, *slots_per_rank)
                                             : physical_of(where, layout);
         });
}

}  // namespace python
