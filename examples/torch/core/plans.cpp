// SPDX-License-Identifier: Apache-2.0
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <optional>
#include <string>

#include "arrays.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/verify.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::table_layout;
using fssdp::transfer;
using fssdp::transfer_plan;

constexpr auto plan_text =
    R"(The transfers that realise a placement: read forwards a gather, backwards the reduction.

Made by ``make_plan`` and ``schedule``, or of transfers of yours, which are taken as they are:
``verify`` tells whether they do what the placement says. A value that knows layout, placement and
topology, but no communicator, no sizes and no types. Equal inputs give equal plans on every rank.

Args:
    layout: who owns what.
    where: who is to hold what.
    transfers: a structured array with the fields of ``transfers``.
    topology: where the ranks sit; by default all on one node.
    pieces: into how many each chunk is cut.

Raises:
    ArgumentError: if these do not fit together, or a transfer names what cannot be.)";

constexpr auto reshard_text =
    R"(The moves that turn one layout into another, in rounds that need little memory.)";

constexpr auto transfer_names = {"round",       "expert", "slice", "source",
                                 "destination", "piece",  "order"};

constexpr auto orders =
    std::array{std::pair{std::string_view{"along_trees"}, fssdp::reduction_order::along_trees},
               std::pair{std::string_view{"by_rank"}, fssdp::reduction_order::by_rank}};

record_array transfer_records(std::span<transfer const> transfers) {
  auto values = std::vector<std::int64_t>{};
  for (auto const& t : transfers)
    values.insert(values.end(), {t.round, t.chunk.expert.value(), t.chunk.slice.value(),
                                 t.source.value(), t.destination.value(), t.piece, t.order});
  return as_records(std::move(values), transfer_names);
}

std::vector<transfer> read_transfers(nb::handle records) {
  auto fields = std::vector<std::vector<int>>{};
  for (auto const* name : transfer_names)
    fields.push_back(read_ints({nb::object{records[name]}}, name));
  auto transfers = std::vector<transfer>{};
  for (std::size_t i = 0; i < fields.front().size(); ++i)
    transfers.push_back({.round = fields[0][i],
                         .chunk = {fssdp::expert_id{fields[1][i]}, fssdp::slice_id{fields[2][i]}},
                         .source = fssdp::rank_id{fields[3][i]},
                         .destination = fssdp::rank_id{fields[4][i]},
                         .piece = fields[5][i],
                         .order = fields[6][i]});
  return transfers;
}

template <class Chunks>
integers<2> chunk_array(Chunks const& chunks) {
  auto values = std::vector<std::int64_t>{};
  for (fssdp::chunk_id const chunk : chunks)
    values.insert(values.end(), {chunk.expert.value(), chunk.slice.value()});
  auto const shape = std::array{values.size() / 2, std::size_t{2}};
  return as_array(std::move(values), shape);
}

fssdp::chunk_id chunk_in(transfer_plan const& plan, int expert, int slice) {
  return {expert_of(expert, plan.experts()),
          checked<fssdp::slice_id>("slice", slice, plan.slices())};
}

table_layout layout_in(transfer_plan const& plan) {
  auto owners = std::vector<fssdp::rank_id>{};
  for (auto const chunk : fssdp::chunk_range{0, plan.experts() * plan.slices(), plan.slices()})
    owners.push_back(plan.owner(chunk));
  return {{.ranks = plan.ranks(), .slices = plan.slices()}, std::move(owners)};
}

std::string plan_repr(transfer_plan const& of) {
  auto const pieces = of.pieces() == 1
                          ? std::string{"whole chunks"}
                          : "pieces, " + std::to_string(of.pieces()) + " of each chunk";
  return fssdp::detail::text("TransferPlan(experts=", of.experts(), ", slices=", of.slices(),
                             ", ranks=", of.ranks(), ", nodes=", of.topology().nodes(), "; ",
                             of.transfers().size(), " transfers of ", pieces, " in ", of.rounds(),
                             " rounds, hash 0x", fssdp::detail::hexadecimal{of.hash_value()}, ")");
}

std::string reshard_repr(fssdp::reshard_plan const& of) {
  return fssdp::detail::text("ReshardPlan(ranks=", of.ranks(),
                             ", scratch_slots=", of.scratch_slots(), "; ", of.moves().size(),
                             " moves in ", of.rounds(), " rounds)");
}

nb::tuple simulated(transfer_plan const& plan, std::size_t chunk_bytes) {
  auto const played = fssdp::simulate(plan, chunk_bytes);
  auto const times = [&](double fssdp::simulation::span::*when) {
    auto values = std::vector<double>{};
    for (auto const& span : played.transfers) values.push_back(span.*when);
    return as_array(std::move(values));
  };
  return nb::make_tuple(played.seconds, times(&fssdp::simulation::span::start),
                        times(&fssdp::simulation::span::released),
                        times(&fssdp::simulation::span::arrival));
}

nb::tuple counted(transfer_plan const& plan, fssdp::topology const* topology) {
  auto const moved = fssdp::traffic(plan, topology_of(topology));
  auto const array = [](std::vector<int> const& of) {
    return as_array(std::vector<std::int64_t>(of.begin(), of.end()));
  };
  return nb::make_tuple(moved.between_nodes, moved.inside_nodes, array(moved.out_of_node),
                        array(moved.into_node), array(moved.out_of_rank), array(moved.into_rank));
}

void add_transfer_plan(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<transfer_plan>(to, "TransferPlan", plan_text)
      .def(
          "__init__",
          [](transfer_plan* self, table_layout const& layout, fssdp::placement const& where,
             array_like const& transfers, fssdp::topology const* topology, int pieces) {
            new (self) transfer_plan{layout, where, read_transfers(transfers.object),
                                     topology_of(topology), pieces};
          },
          "layout"_a, "where"_a, "transfers"_a, "topology"_a = nb::none(), nb::kw_only(),
          "pieces"_a = 1)
      .def_prop_ro("experts", &transfer_plan::experts)
      .def_prop_ro("slices", &transfer_plan::slices, "Into how many slices each expert is cut.")
      .def_prop_ro("pieces", &transfer_plan::pieces, "Into how many pieces each chunk is cut.")
      .def_prop_ro("ranks", &transfer_plan::ranks)
      .def_prop_ro("rounds", &transfer_plan::rounds,
                   "A rank can pass on in a round what reached it in a round before.")
      .def_prop_ro(
          "topology", [](transfer_plan const& self) { return self.topology(); },
          "Where the ranks sit.")
      .def_prop_ro("layout", layout_in, "Who owns what.")
      .def_prop_ro(
          "where", [](transfer_plan const& self) { return self.where(); },
          "Who holds what: a copy.")
      .def_prop_ro("hash_value", &transfer_plan::hash_value,
                   "64 bits that differ, almost surely, if two plans do.")
      .def_prop_ro(
          "reduction", [](transfer_plan const& self) { return self.reduction(); },
          "The plan that reductions read backwards: this one, unless ``reduced_by`` has "
          "named another.")
      .def_prop_ro(
          "transfers", [](transfer_plan const& self) { return transfer_records(self.transfers()); },
          "All transfers in canonical order: a structured array with the fields round, expert, "
          "slice, source, destination, piece, order.")
      .def_prop_ro(
          "feeders",
          [](transfer_plan const& self) {
            return as_array(
                std::vector<std::int64_t>(self.feeders().begin(), self.feeders().end()));
          },
          "For each transfer the one that brings the piece to its source, by position: "
          "[transfers]; -1 if the source owns it.")
      .def(
          "owner",
          [](transfer_plan const& self, int expert, int slice) {
            return self.owner(chunk_in(self, expert, slice)).value();
          },
          "expert"_a, "slice"_a = 0, "The rank that owns a chunk.")
      .def(
          "owner_slot",
          [](transfer_plan const& self, int expert, int slice) {
            return self.owner_slot(chunk_in(self, expert, slice));
          },
          "expert"_a, "slice"_a = 0, "Where a chunk lies in its owner's shard.")
      .def(
          "owned_count",
          [](transfer_plan const& self, int rank) {
            return self.owned_count(rank_of(rank, self.ranks()));
          },
          "rank"_a, "How many chunks a rank owns.")
      .def(
          "materialized",
          [](transfer_plan const& self, int rank) {
            return index_array(self.materialized(rank_of(rank, self.ranks())));
          },
          "rank"_a, "What a rank computes with: all the experts it holds, ascending.")
      .def(
          "remote",
          [](transfer_plan const& self, int rank) {
            return index_array(self.remote(rank_of(rank, self.ranks())));
          },
          "rank"_a,
          "The experts that take a slot among the replicas of a rank, ascending: those it holds "
          "and does not own; where experts are sliced, all it holds.")
      .def(
          "shared",
          [](transfer_plan const& self, int rank) {
            return chunk_array(self.shared(rank_of(rank, self.ranks())));
          },
          "rank"_a, "The chunks that a rank owns and others get: [shared, 2], expert and slice.")
      .def(
          "sends",
          [](transfer_plan const& self, int rank) {
            return transfer_records(self.sends(rank_of(rank, self.ranks())));
          },
          "rank"_a, "What a rank sends in a gather, in canonical order.")
      .def(
          "receives",
          [](transfer_plan const& self, int rank) {
            return transfer_records(self.receives(rank_of(rank, self.ranks())));
          },
          "rank"_a, "What a rank receives in a gather, in canonical order.")
      .def("reduced_by", &transfer_plan::reduced_by, "other"_a,
           "The same in gathers; reductions use another plan of the same layout, placement and "
           "topology.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", &transfer_plan::hash_value)
      .def("__repr__", plan_repr)
      .def("__getstate__",
           [](transfer_plan const& self) {
             auto const& reduction = self.reduction();
             auto const other = &reduction != &self;
             return nb::make_tuple(layout_in(self), self.where(), self.topology(),
                                   transfer_records(self.transfers()), self.pieces(),
                                   other ? nb::cast(reduction) : nb::none());
           })
      .def("__setstate__", [](transfer_plan& self, nb::tuple const& state) {
        auto plan = transfer_plan{nb::cast<table_layout>(state[0]),
                                  nb::cast<fssdp::placement>(state[1]), read_transfers(state[3]),
                                  nb::cast<fssdp::topology>(state[2]), nb::cast<int>(state[4])};
        if (!state[5].is_none()) plan = plan.reduced_by(nb::cast<transfer_plan>(state[5]));
        new (&self) transfer_plan{std::move(plan)};
      });
}

void add_reshard_plan(nb::module_& to) {
  using namespace nb::literals;
  using fssdp::reshard_plan;
  nb::class_<reshard_plan>(to, "ReshardPlan", reshard_text)
      .def_prop_ro("ranks", &reshard_plan::ranks)
      .def_prop_ro("rounds", &reshard_plan::rounds)
      .def_prop_ro("scratch_slots", &reshard_plan::scratch_slots,
                   "How many chunks a rank has room for beside its shard.")
      .def_prop_ro("hash_value", &reshard_plan::hash_value)
      .def_prop_ro(
          "moves", [](reshard_plan const& self) { return transfer_records(self.moves()); },
          "The chunks that change their owner: a structured array, as TransferPlan.transfers.")
      .def(
          "before",
          [](reshard_plan const& self, int rank) {
            return chunk_array(self.before(rank_of(rank, self.ranks())));
          },
          "rank"_a, "The chunks of a rank in slot order: [owned, 2], expert and slice.")
      .def(
          "after",
          [](reshard_plan const& self, int rank) {
            return chunk_array(self.after(rank_of(rank, self.ranks())));
          },
          "rank"_a, "The same when all have moved.")
      .def(
          "slots",
          [](reshard_plan const& self, int rank) {
            return self.slots(rank_of(rank, self.ranks()));
          },
          "rank"_a, "The slots that a rank's shard needs throughout.")
      .def("__repr__", reshard_repr);
}

}  // namespace

void add_plans(nb::module_& to) {
  add_transfer_plan(to);
  add_reshard_plan(to);
  to.def(
      "make_plan",
      [](table_layout const& layout, fssdp::placement const& where,
         fssdp::topology const* topology) {
        auto const released = nb::gil_scoped_release{};
        return fssdp::make_plan(layout, where, topology_of(topology));
      },
      nb::arg(), nb::arg(), nb::arg().none());
  to.def(
      "schedule",
      [](transfer_plan const& plan, std::size_t chunk_bytes, std::size_t piece_bytes,
         std::size_t least_bytes, std::optional<std::size_t> relay_bytes, std::string const& sums,
         std::size_t effort) {
        auto const options = fssdp::schedule_options{
            .piece_bytes = piece_bytes,
            .least_bytes = least_bytes,
            .relay_bytes = relay_bytes.value_or(std::numeric_limits<std::size_t>::max()),
            .sums = named("sums", sums, orders),
            .effort = effort};
        auto const released = nb::gil_scoped_release{};
        return fssdp::schedule(plan, chunk_bytes, options);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  to.def("verify", [](transfer_plan const& plan) { fssdp::verify(plan); });
  to.def("simulate", simulated);
  to.def("lower_bound",
         [](transfer_plan const& plan, std::size_t chunk_bytes, std::size_t least_piece_bytes) {
           auto const bound = fssdp::lower_bound(plan, chunk_bytes, least_piece_bytes);
           return nb::make_tuple(bound.seconds, bound.tight_seconds, bound.resource);
         });
  to.def("traffic", counted, nb::arg(), nb::arg().none());
  to.def("rank_ordered", [](transfer_plan const& plan) { return fssdp::rank_ordered(plan); });
  to.def("reshard_plan", [](table_layout const& from, table_layout const& into, int scratch_slots) {
    return fssdp::reshard_plan{from, into, {.scratch_slots = scratch_slots}};
  });
}

}  // namespace python
