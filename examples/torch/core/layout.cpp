// SPDX-License-Identifier: Apache-2.0
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "arrays.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::table_layout;

constexpr auto layout_text = R"(Who owns the parameters and the optimizer state of each expert.

Made by ``block_layout``, ``cyclic_layout``, ``table_layout`` or ``layer_stack``. An expert may be
cut into slices, each with an owner of its own; what is owned and moves, a slice of an expert or all
of it, is a chunk. The owner of slice 0 is the owner of the expert. A value: equal layouts compare
equal and have equal hashes, however they were made.)";

fssdp::chunk_id chunk_of(table_layout const& in, int expert, int slice) {
  return {expert_of(expert, in.experts()), checked<fssdp::slice_id>("slice", slice, in.slices())};
}

template <class Value>
integers<2> of_chunks(table_layout const& in, Value value) {
  auto values = std::vector<std::int64_t>{};
  for (auto const chunk : fssdp::all_chunks(in)) values.push_back(value(chunk));
  auto const shape =
      std::array{static_cast<std::size_t>(in.experts()), static_cast<std::size_t>(in.slices())};
  return as_array(std::move(values), shape);
}

integers<2> owner_table(table_layout const& of) {
  return of_chunks(of, [&](fssdp::chunk_id chunk) { return of.owner(chunk).value(); });
}

/// @param owners [experts * slices]
table_layout layout_from(std::vector<int> const& owners, int ranks, int slices) {
  auto table = std::vector<fssdp::rank_id>{};
  for (auto const owner : owners) table.emplace_back(owner);
  return {{.ranks = ranks, .slices = slices}, std::move(table)};
}

std::string layout_repr(table_layout const& of) {
  constexpr auto shown = 64;
  auto text = fssdp::detail::text("Layout(experts=", of.experts(), ", ranks=", of.ranks(),
                                  ", slices=", of.slices(), "; owners:");
  auto n = 0;
  for (auto const chunk : fssdp::all_chunks(of)) {
    if (n++ == shown) return text + " ...)";
    text += ' ' + std::to_string(of.owner(chunk).value());
  }
  return text + ')';
}

}  // namespace

void add_layout(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<table_layout>(to, "Layout", layout_text)
      .def_prop_ro("experts", &table_layout::experts)
      .def_prop_ro("ranks", &table_layout::ranks)
      .def_prop_ro("slices", &table_layout::slices, "Into how many slices each expert is cut.")
      .def_prop_ro("owners", owner_table, "The owner of each chunk: [experts, slices].")
      .def_prop_ro(
          "slots",
          [](table_layout const& self) {
            return of_chunks(self, [&](fssdp::chunk_id chunk) { return self.slot(chunk); });
          },
          "Where each chunk lies in the shard of its owner: [experts, slices].")
      .def_prop_ro(
          "owned_counts",
          [](table_layout const& self) {
            auto counts = std::vector<std::int64_t>{};
            for (auto const rank : fssdp::first_n<fssdp::rank_id>(self.ranks()))
              counts.push_back(static_cast<std::int64_t>(self.owned(rank).size()));
            return as_array(std::move(counts));
          },
          "How many chunks each rank owns: [ranks].")
      .def(
          "owner",
          [](table_layout const& self, int expert, int slice) {
            return self.owner(chunk_of(self, expert, slice)).value();
          },
          "expert"_a, "slice"_a = 0, "The rank that owns a chunk.")
      .def(
          "slot",
          [](table_layout const& self, int expert, int slice) {
            return self.slot(chunk_of(self, expert, slice));
          },
          "expert"_a, "slice"_a = 0, "Where a chunk lies in the shard of its owner.")
      .def(
          "owned",
          [](table_layout const& self, int rank) {
            auto values = std::vector<std::int64_t>{};
            auto const chunks = self.owned(rank_of(rank, self.ranks()));
            for (auto const& chunk : chunks)
              values.insert(values.end(), {chunk.expert.value(), chunk.slice.value()});
            auto const shape = std::array{chunks.size(), std::size_t{2}};
            return as_array(std::move(values), shape);
          },
          "rank"_a, "The chunks of a rank in slot order: [owned, 2], expert and slice.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__",
           [](table_layout const& self) {
             return nb::hash(
                 nb::make_tuple(self.ranks(), self.slices(), owner_table(self).attr("tobytes")()));
           })
      .def("__repr__", layout_repr)
      .def("__getstate__",
           [](table_layout const& self) {
             return nb::make_tuple(owner_table(self), self.ranks(), self.slices());
           })
      .def("__setstate__", [](table_layout& self, nb::tuple const& state) {
        auto const owners = read_ints({state[0].attr("reshape")(-1)}, "owners");
        new (&self)
            table_layout{layout_from(owners, nb::cast<int>(state[1]), nb::cast<int>(state[2]))};
      });
  to.def("block_layout", [](int experts, int ranks, int slices) {
    return as_table(fssdp::block_layout{{.experts = experts, .ranks = ranks, .slices = slices}});
  });
  to.def("cyclic_layout", [](int experts, int ranks, int slices) {
    return as_table(fssdp::cyclic_layout{{.experts = experts, .ranks = ranks, .slices = slices}});
  });
  to.def("table_layout", [](array_like const& owners, int ranks, int slices) {
    return layout_from(read_ints(owners, "owners"), ranks, slices);
  });
  to.def("layer_stack", [](std::vector<table_layout> layers) {
    return as_table(fssdp::layer_stack<table_layout>{std::move(layers)});
  });
}

}  // namespace python
