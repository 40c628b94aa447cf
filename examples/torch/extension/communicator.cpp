// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/back_end.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/torch_tensors.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "fssdp/token/token_plan.hpp"
#include "module.hpp"
#include "row_blocks.hpp"
#include "tensors.hpp"

namespace python {
namespace {

using fssdp::token_counts;
using fssdp::token_plan;
using fssdp::transfer_plan;
using fssdp::detail::require;
using released = nb::gil_scoped_release;
using tensor_vector = std::vector<at::Tensor>;
using begun = std::unique_ptr<work>;

std::vector<at::Tensor> tensors_in(nb::list const& list) {
  auto tensors = tensor_vector{};
  for (auto const& item : list) tensors.push_back(tensor_of(item));
  return tensors;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds{static_cast<long long>(std::ceil(seconds * 1000))};
}
c10::Device device_named(std::string const& name) {
  try {
    return c10::Device{name};
  } catch (c10::Error const&) {
    throw fssdp::argument_error{
        fssdp::detail::text("Communicator: device '", name, "'; expected one of torch's")};
  }
}

/// Stacked tensors, [slots, ...], where the communicator moves them.
fssdp::torch_tensors stacked(communicator const& by, char const* name, tensor_vector const& of) {
  auto tensors = fssdp::torch_tensors{by.device()};
  for (std::size_t k = 0; k < of.size(); ++k)
    tensors.add(fssdp::detail::text(name, "[", k, "]"), of[k]);
  return tensors;
}
tensor_vector both(tensor_vector one, tensor_vector const& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

begun sparse_all_gather(communicator& self, transfer_plan const& plan, nb::list const& from,
                        nb::list const& to, bool async_op) {
  auto const owned = tensors_in(from);
  auto const held = tensors_in(to);
  auto const unlocked = released{};
  auto const weights = stacked(self, "owned", owned);
  auto const replicas = stacked(self, "held", held);
  replicas.mark_written();
  return self.run(async_op, both(owned, held), [&](auto& comm) {
    fssdp::sparse_all_gather(comm, plan, weights, replicas, {.scratch = &self.scratch()});
  });
}

begun sparse_reduce_scatter(communicator& self, transfer_plan const& plan, nb::list const& from,
                            nb::list const& to, double scale, bool async_op) {
  auto const held = tensors_in(from);
  auto const owned = tensors_in(to);
  auto const unlocked = released{};
  auto const partials = stacked(self, "held", held);
  auto const sums = stacked(self, "owned", owned);
  sums.mark_written();
  return self.run(async_op, both(held, owned), [&](auto& comm) {
    fssdp::sparse_reduce_scatter(comm, plan, partials, sums,
                                 {.scale = scale, .scratch = &self.scratch()});
  });
}

/// The rows of a tensor, as bytes.
fssdp::rows_view<std::byte> rows_of(communicator const& by, char const* name,
                                    at::Tensor const& tensor) {
  require(tensor.device() == by.device(), name, ": a tensor on ", tensor.device().str(),
          "; expected ", by.device().str());
  require(tensor.dim() >= 1 && tensor.is_contiguous(), name,
          " is not contiguous; expected contiguous rows");
  auto const rows = static_cast<std::size_t>(tensor.size(0));
  auto width = static_cast<std::size_t>(tensor.element_size());
  for (std::int64_t d = 1; d < tensor.dim(); ++d) width *= static_cast<std::size_t>(tensor.size(d));
  return {static_cast<std::byte*>(tensor.data_ptr()), rows, width};
}

begun move_rows(communicator& self, token_plan const& plan, at::Tensor const& from,
                at::Tensor const& to, bool back, bool async_op) {
  auto const unlocked = released{};
  require(from.scalar_type() == to.scalar_type(), back ? "combine" : "dispatch", ": from ",
          c10::toString(from.scalar_type()), " to ", c10::toString(to.scalar_type()),
          "; expected one type");
  return self.run(async_op, {from, to}, [&](auto& comm) {
    auto const in = rows_of(self, "from", from);
    auto const out = rows_of(self, "to", to);
    auto const options = fssdp::token_options{.scratch = &self.scratch()};
    if (back)
      fssdp::combine(comm, plan, in, out, options);
    else
      fssdp::dispatch(comm, plan, in, out, options);
  });
}

/// A row for each element where there is one dimension: [rows, ...].
fssdp::torch_tensors as_rows(communicator const& by, char const* name, at::Tensor const& tensor) {
  auto rows = fssdp::torch_tensors{by.device()};
  rows.add(name, tensor);
  return rows;
}
row_blocks blocks_of(char const* name, communicator& self, std::vector<std::size_t> rows,
                     at::Tensor const& mine, at::Tensor const& all) {
  require(rows.size() == static_cast<std::size_t>(self.size()), name, ": rows of ", rows.size(),
          " ranks; expected ", self.size());
  auto const here = as_rows(self, "rows of this rank", mine);
  auto const everywhere = as_rows(self, "rows of all ranks", all);
  return {name,          self.rank(), std::move(rows), here.tensors()[0], everywhere.tensors()[0],
          self.scratch()};
}
begun all_gather_v(communicator& self, std::vector<std::size_t> rows, at::Tensor const& from,
                   at::Tensor const& to, bool async_op) {
  auto const unlocked = released{};
  auto const call = gather_blocks{blocks_of("all_gather_v", self, std::move(rows), from, to)};
  return self.run(async_op, {from, to}, [&](auto& comm) { fssdp::submit(comm, call); });
}
begun reduce_scatter_v(communicator& self, std::vector<std::size_t> rows, at::Tensor const& from,
                       at::Tensor const& to, bool async_op) {
  auto const unlocked = released{};
  auto const call = reduce_blocks{blocks_of("reduce_scatter_v", self, std::move(rows), to, from)};
  return self.run(async_op, {from, to}, [&](auto& comm) { fssdp::submit(comm, call); });
}

/// @param placement a hash of who holds what here
/// @throws fssdp::ranks_disagree on every rank if another one has another
token_counts gather_counts(communicator& self, std::vector<std::uint64_t> mine,
                           std::uint64_t placement) {
  auto const unlocked = released{};
  auto const experts = mine.size();
  auto const ranks = static_cast<std::size_t>(self.size());
  mine.push_back(placement);
  auto all = std::vector<std::uint64_t>(mine.size() * ranks);
  (void)self.run(false, {}, [&](auto& comm) { fssdp::all_gather(comm, mine, all); });
  auto counts = std::vector<std::uint64_t>{};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const row = std::span{all}.subspan(rank * mine.size(), mine.size());
    if (row.back() != placement)
      throw fssdp::detail::disagreement(
          fssdp::rank_id{self.rank()}, fssdp::rank_id{static_cast<int>(rank)},
          "their placements differ; expected equal solvers and options on all ranks");
    counts.insert(counts.end(), row.begin(), row.end() - 1);
  }
  return {self.size(), static_cast<int>(experts), std::move(counts)};
}

token_plan plan_tokens(token_counts const& counts, fssdp::placement const& where, int rank,
                       std::string const& routing, fssdp::topology const* topology) {
  using fssdp::routing_rule;
  require(routing == "even" || routing == "balanced", "routing is '", routing,
          "'; expected 'even' or 'balanced'");
  auto const rule = routing == "balanced" ? routing_rule::balanced : routing_rule::even;
  auto const unlocked = released{};
  return fssdp::with_routing(rule, counts, where,
                             topology == nullptr ? fssdp::topology{} : *topology,
                             [&](auto const& by) {
                               return token_plan{counts, by, fssdp::rank_id{rank}};
                             });
}

/// Received rows of each expert that the rank holds: [held].
std::vector<std::size_t> group_rows(token_plan const& plan) {
  auto rows = std::vector<std::size_t>{};
  for (auto const& group : plan.groups()) rows.push_back(group.rows);
  return rows;
}

}  // namespace

void add_communicator(nb::module_& to) {
  using namespace nb::literals;
  constexpr auto kept = nb::keep_alive<0, 1>{};  // a Work keeps its communicator
  nb::class_<work>(to, "Work")
      .def("wait", &work::wait, nb::call_guard<released>(),
           "Waits until it has finished; on a device its current stream does, not the host.\n\n"
           "Raises:\n    TransportError: what has failed since it started.")
      .def("is_completed", &work::is_completed, "Whether it has finished.");
  nb::class_<communicator>(to, "Communicator")
      .def(
          "__init__",
          [](communicator* self, std::string const& group, double timeout,
             std::string const& device, bool by_operators) {
            new (self)
                communicator{{group, device_named(device), by_operators, milliseconds(timeout)}};
          },
          "group"_a, "timeout"_a, "device"_a, "by_operators"_a)
      .def_prop_ro(
          "device", [](communicator const& self) { return self.device().str(); },
          "The device of its tensors, with its index.")
      .def_prop_ro("rank", [](communicator const& self) { return self.rank().value(); })
      .def_prop_ro("size", &communicator::size)
      .def_prop_ro("bytes_sent",
                   [](communicator const& self) { return self.group().counts().bytes_sent; })
      .def_prop_ro("messages_sent",
                   [](communicator const& self) { return self.group().counts().messages_sent; })
      .def("reset_counts", [](communicator& self) { self.group().reset_counts(); })
      .def("sparse_all_gather", sparse_all_gather, kept, "plan"_a, "owned"_a, "held"_a,
           "async_op"_a)
      .def("sparse_reduce_scatter", sparse_reduce_scatter, kept, "plan"_a, "held"_a, "owned"_a,
           "scale"_a, "async_op"_a)
      .def("all_gather_v", all_gather_v, kept, "rows"_a, "mine"_a, "all"_a, "async_op"_a)
      .def("reduce_scatter_v", reduce_scatter_v, kept, "rows"_a, "all"_a, "mine"_a, "async_op"_a)
      .def(
          "dispatch",
          [](communicator& self, token_plan const& plan, at::Tensor const& from,
             at::Tensor const& into,
             bool async_op) { return move_rows(self, plan, from, into, false, async_op); },
          kept, "plan"_a, "sent"_a, "received"_a, "async_op"_a)
      .def(
          "combine",
          [](communicator& self, token_plan const& plan, at::Tensor const& from,
             at::Tensor const& into,
             bool async_op) { return move_rows(self, plan, from, into, true, async_op); },
          kept, "plan"_a, "received"_a, "sent"_a, "async_op"_a)
      .def("gather_counts", gather_counts, "counts"_a, "placement"_a,
           "The token counts of all ranks, from those of this one: [experts].\n\nRaises:\n"
           "    RanksDisagree: another rank has a placement with another hash.");
  nb::class_<token_counts>(to, "TokenCounts")
      .def_prop_ro("ranks", &token_counts::ranks)
      .def_prop_ro("experts", &token_counts::experts)
      .def("loads", &token_counts::loads, "Tokens of each expert over all ranks: [experts].");
  to.def("plan_tokens", plan_tokens, "counts"_a, "where"_a, "rank"_a, "routing"_a,
         "topology"_a.none());
  to.def("group_rows", group_rows, "plan"_a);
}

}  // namespace python

NB_MODULE(_torch, to) {
  nanobind::module_::import_("fssdp");  // its types and errors are used here
  python::add_communicator(to);
  python::add_materializer(to);
  python::add_exchanges(to);
}
