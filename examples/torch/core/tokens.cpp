// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>

#include "arrays.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/routing_table.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/token/permute.hpp"
#include "fssdp/token/token_plan.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::balanced_routing;
using fssdp::even_routing;
using fssdp::expert_order;
using fssdp::placement;
using fssdp::token_plan;
using fssdp::token_traffic;

constexpr auto even_text = R"(Which replica gets which tokens: the paper's rule.

Tokens stay on their rank if it holds the expert; else they go evenly to the holders on their node;
else evenly to all holders. It looks at no counts.

Args:
    where: who holds what.
    topology: where the ranks sit; by default all on one node.)";

constexpr auto balanced_text =
    R"(Which replica gets which tokens: so that the fullest rank has as few as possible.

Args:
    counts: [ranks, experts], tokens of every rank for every expert; less than 2^48 in all. It
        routes those and no others.
    where: who holds what.
    topology: where the ranks sit; by default all on one node.)";

constexpr auto traffic_text =
    R"(Tokens on devices and through ports, under a routing: one way of a dispatch.

Args:
    counts: [ranks, experts], tokens of every rank for every expert.
    routing: an EvenRouting or a BalancedRouting.
    topology: where the ranks sit; by default all on one node.)";

constexpr auto token_plan_text =
    R"(Which rows of tokens go where: one rank's part in a dispatch and in the combine that follows it.

All ranks compute theirs from the same counts, so nothing else is exchanged. The rows sent for an
expert are in the order of the tokens: the first go to its first receiver, and so on.

Args:
    counts: [ranks, experts], tokens of every rank for every expert.
    routing: an EvenRouting or a BalancedRouting; of a Placement, the even one.
    rank: whose part.
    topology: where the ranks sit, for a Placement; by default all on one node.
    sent: how the rows lie that a rank sends: 'by_expert', then by peer, or 'by_rank', then by
        expert.
    received: how those lie that it receives.)";

constexpr auto order_text =
    R"(Where the rows of every token go when they are sorted by expert, stably, or as a plan sends them.

``tokens[order.token_of_row]`` are the rows; ``rows[order.rows]``, [tokens, per_token, width], brings
them back.

Args:
    choices: [tokens, per_token], the experts that the router has chosen.
    experts: how many there are.)";

constexpr auto row_orders =
    std::array{std::pair{std::string_view{"by_expert"}, fssdp::row_order::by_expert},
               std::pair{std::string_view{"by_rank"}, fssdp::row_order::by_rank}};

fssdp::token_counts read_counts(array_like const& from) {
  auto numbers = read_whole_numbers(from, "counts", 2);
  return {static_cast<int>(numbers.shape[0]), static_cast<int>(numbers.shape[1]),
          std::move(numbers.values)};
}

/// Calls use(routing) with what a routing of Python's is.
template <class Use>
decltype(auto) with_routing(nb::handle routing, Use use) {
  if (nb::isinstance<balanced_routing>(routing))
    return use(nb::cast<balanced_routing const&>(routing));
  if (!nb::isinstance<even_routing>(routing))
    throw nb::type_error("routing: expected an EvenRouting or a BalancedRouting");
  return use(nb::cast<even_routing const&>(routing));
}

record_array segment_records(std::span<fssdp::token_segment const> segments) {
  auto values = std::vector<std::int64_t>{};
  for (auto const& s : segments)
    values.insert(values.end(),
                  {s.expert.value(), s.peer.value(), static_cast<std::int64_t>(s.first),
                   static_cast<std::int64_t>(s.rows)});
  return as_records(std::move(values), {"expert", "peer", "first", "rows"});
}
record_array group_records(token_plan const& of) {
  auto values = std::vector<std::int64_t>{};
  for (auto const& group : of.groups())
    values.insert(values.end(), {group.expert.value(), static_cast<std::int64_t>(group.first),
                                 static_cast<std::int64_t>(group.rows)});
  return as_records(std::move(values), {"expert", "first", "rows"});
}

/// Rows of each peer: [ranks].
integers<1> rows_by_peer(token_plan const& of, std::span<fssdp::token_segment const> segments) {
  auto rows = std::vector<std::int64_t>(static_cast<std::size_t>(of.ranks()));
  for (auto const& segment : segments)
    rows[segment.peer.index()] += static_cast<std::int64_t>(segment.rows);
  return as_array(std::move(rows));
}

template <class Rows>
integers<1> row_array(Rows const& rows) {
  return as_array(std::vector<std::int64_t>(rows.begin(), rows.end()));
}

std::string token_plan_repr(token_plan const& of) {
  return fssdp::detail::text("TokenPlan(rank=", of.rank(), " of ", of.ranks(), "; sends ",
                             of.sent_rows(), " rows, receives ", of.received_rows(), " in ",
                             of.groups().size(), " groups)");
}

template <class Routing>
std::string routing_repr(char const* name, Routing const& of) {
  return fssdp::detail::text(name, "(experts=", of.where().experts(),
                             ", ranks=", of.where().ranks(), ")");
}

void add_routings(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<even_routing>(to, "EvenRouting", even_text)
      .def(
          "__init__",
          [](even_routing* self, placement const& where, fssdp::topology const* topology) {
            new (self) even_routing{where, topology_of(topology)};
          },
          "where"_a, "topology"_a = nb::none())
      .def_prop_ro(
          "where", [](even_routing const& self) { return self.where(); }, "Who holds what: a copy.")
      .def("__repr__", [](even_routing const& self) { return routing_repr("EvenRouting", self); });
  nb::class_<balanced_routing>(to, "BalancedRouting", balanced_text)
      .def(
          "__init__",
          [](balanced_routing* self, array_like const& counts, placement const& where,
             fssdp::topology const* topology) {
            new (self) balanced_routing{read_counts(counts), where, topology_of(topology)};
          },
          "counts"_a, "where"_a, "topology"_a = nb::none())
      .def_prop_ro(
          "where", [](balanced_routing const& self) { return self.where(); },
          "Who holds what: a copy.")
      .def("__repr__",
           [](balanced_routing const& self) { return routing_repr("BalancedRouting", self); });
  nb::class_<token_traffic>(to, "TokenTraffic", traffic_text)
      .def(
          "__init__",
          [](token_traffic* self, array_like const& counts, nb::object const& routing,
             fssdp::topology const* topology) {
            with_routing(routing, [&](auto const& by) {
              new (self) token_traffic{read_counts(counts), by, topology_of(topology)};
            });
          },
          "counts"_a, "routing"_a, "topology"_a = nb::none())
      .def_prop_ro(
          "on_rank", [](token_traffic const& self) { return token_array(self.on_rank); },
          "Tokens that each rank works on: [ranks].")
      .def_prop_ro(
          "into_rank", [](token_traffic const& self) { return token_array(self.into_rank); },
          "From other ranks of its node: [ranks].")
      .def_prop_ro(
          "out_of_rank", [](token_traffic const& self) { return token_array(self.out_of_rank); },
          "To other ranks of its node: [ranks].")
      .def_prop_ro(
          "into_node", [](token_traffic const& self) { return token_array(self.into_node); },
          "From other nodes: [nodes].")
      .def_prop_ro(
          "out_of_node", [](token_traffic const& self) { return token_array(self.out_of_node); },
          "To other nodes: [nodes].");
  to.def("routing_table", [](array_like const& counts, nb::object const& routing) {
    return with_routing(routing, [&](auto const& by) {
      auto values = std::vector<std::int64_t>{};
      for (auto const& flow : fssdp::routing_table(read_counts(counts), by))
        values.insert(values.end(), {flow.source.value(), flow.expert.value(), flow.to.value(),
                                     static_cast<std::int64_t>(flow.tokens)});
      return as_records(std::move(values), {"source", "expert", "to", "tokens"});
    });
  });
}

void add_token_plan(nb::module_& to) {
  using namespace nb::literals;
  nb::class_<token_plan>(to, "TokenPlan", token_plan_text)
      .def(
          "__init__",
          [](token_plan* self, array_like const& counts, nb::object const& routing, int rank,
             fssdp::topology const* topology, std::string const& sent,
             std::string const& received) {
            auto const numbers = read_counts(counts);
            auto const of = fssdp::rank_id{rank};
            auto const lie = fssdp::row_orders{.sent = named("sent", sent, row_orders),
                                               .received = named("received", received, row_orders)};
            if (nb::isinstance<placement>(routing)) {
              new (self) token_plan{numbers, nb::cast<placement const&>(routing), of,
                                    topology_of(topology), lie};
              return;
            }
            fssdp::detail::require(topology == nullptr, "TokenPlan: a topology beside a routing; ",
                                   "expected the topology that the routing has, and none here");
            with_routing(routing, [&](auto const& by) {
              new (self) token_plan{numbers, by, of, lie};
            });
          },
          "counts"_a, "routing"_a, "rank"_a, "topology"_a = nb::none(), nb::kw_only(),
          "sent"_a = "by_expert", "received"_a = "by_expert")
      .def_prop_ro("rank", [](token_plan const& self) { return self.rank().value(); })
      .def_prop_ro("ranks", &token_plan::ranks)
      .def_prop_ro("sent_rows", &token_plan::sent_rows, "How many rows the rank sends.")
      .def_prop_ro("received_rows", &token_plan::received_rows, "How many it receives.")
      .def_prop_ro(
          "send_counts", [](token_plan const& self) { return rows_by_peer(self, self.sends()); },
          "Rows that go to each rank, itself included: [ranks]. With sent='by_rank' these are the "
          "input splits of an all-to-all.")
      .def_prop_ro(
          "receive_counts",
          [](token_plan const& self) { return rows_by_peer(self, self.receives()); },
          "Rows that come from each rank: [ranks]. With received='by_rank' these are its output "
          "splits.")
      .def_prop_ro(
          "sends", [](token_plan const& self) { return segment_records(self.sends()); },
          "What leaves, as it lies: a structured array with the fields expert, peer, first, rows.")
      .def_prop_ro(
          "receives", [](token_plan const& self) { return segment_records(self.receives()); },
          "What arrives, as it lies, likewise.")
      .def_prop_ro("groups", group_records,
                   "The received rows of every expert that the rank holds: a structured array with "
                   "the fields expert, first, rows. If they lie by rank, a group for each source.")
      .def_prop_ro(
          "rows_by_expert", [](token_plan const& self) { return row_array(self.rows_by_expert()); },
          "Where rows that are sorted by expert lie when they are sent: [sent_rows]; row r is row "
          "rows_by_expert[r].")
      .def_prop_ro(
          "device_loads", [](token_plan const& self) { return token_array(self.device_loads()); },
          "Rows that each rank works on: [ranks].")
      .def_prop_ro("hash_value", &token_plan::hash_value,
                   "The same on every rank, and almost surely another one for other counts, "
                   "placements or orders.")
      .def("__repr__", token_plan_repr);
  nb::class_<expert_order>(to, "ExpertOrder", order_text)
      .def(
          "__init__",
          [](expert_order* self, array_like const& choices, int experts) {
            auto const numbers = read_whole_numbers(choices, "choices", 2);
            auto chosen = std::vector<fssdp::expert_id>{};
            for (auto const expert : numbers.values)
              chosen.emplace_back(static_cast<int>(
                  std::min<std::uint64_t>(expert, std::numeric_limits<int>::max())));
            new (self) expert_order{chosen, experts, static_cast<int>(numbers.shape[1])};
          },
          "choices"_a, "experts"_a)
      .def_prop_ro("tokens", &expert_order::tokens)
      .def_prop_ro("per_token", &expert_order::per_token, "Experts that each token goes to.")
      .def_prop_ro(
          "counts", [](expert_order const& self) { return token_array(self.counts()); },
          "Rows of each expert: [experts].")
      .def_prop_ro(
          "rows",
          [](expert_order const& self) {
            auto rows = std::vector<std::int64_t>{};
            for (std::size_t choice = 0; choice < self.rows(); ++choice)
              rows.push_back(static_cast<std::int64_t>(self.row(choice)));
            auto const shape = std::array{self.tokens(), self.per_token()};
            return as_array(std::move(rows), shape);
          },
          "The row of each choice: [tokens, per_token].")
      .def_prop_ro(
          "token_of_row",
          [](expert_order const& self) {
            auto tokens = std::vector<std::int64_t>(self.rows());
            for (std::size_t choice = 0; choice < self.rows(); ++choice)
              tokens[self.row(choice)] = static_cast<std::int64_t>(choice / self.per_token());
            return as_array(std::move(tokens));
          },
          "The token that each row is of: [tokens * per_token].")
      .def(
          "for_plan",
          [](expert_order const& self, token_plan const& plan) {
            return expert_order{self, plan};
          },
          "plan"_a, "The same choices, their rows in the order in which a plan sends them.");
}

}  // namespace

void add_tokens(nb::module_& to) {
  add_routings(to);
  add_token_plan(to);
}

}  // namespace python
