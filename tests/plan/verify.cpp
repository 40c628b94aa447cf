// SPDX-License-Identifier: Apache-2.0
/// verify accepts exactly the plans that deliver: mutants of good plans do not pass.
#include "fssdp/plan/verify.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "catch.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::transfer;
using fssdp::transfer_plan;
using support::dice;
using support::random_instance;

namespace {

/// Whether the transfers of each piece are a tree that hangs from its owner, has all holders of its
/// expert as nodes and nobody else as a leaf; a rank sends a piece in one round, after the one in
/// which it gets it.
[[nodiscard]] bool delivers(transfer_plan const& plan) {
  auto got = std::map<fssdp::piece_id, std::map<rank_id, transfer>>{};  // by destination
  auto sent = std::map<std::pair<fssdp::piece_id, rank_id>, int>{};     // in which round
  for (auto const& t : plan.transfers()) {
    if (!got[t.what()].emplace(t.destination, t).second) return false;
    if (sent.emplace(std::pair{t.what(), t.source}, t.round).first->second != t.round) return false;
  }
  for (auto const chunk : fssdp::chunk_range{0, plan.experts() * plan.slices(), plan.slices()})
    for (int index = 0; index < plan.pieces(); ++index) {
      auto const piece = fssdp::piece_id{chunk, index};
      auto const owner = plan.owner(chunk);
      auto const& incoming = got[piece];
      if (incoming.contains(owner)) return false;
      for (auto const rank : plan.where().holders(chunk.expert))
        if (rank != owner && !incoming.contains(rank)) return false;
      for (auto const& [destination, t] : incoming) {
        if (!plan.where().holds(destination, chunk.expert) && !sent.contains({piece, destination}))
          return false;
        auto steps = 0;
        for (auto at = t.source; at != owner; at = incoming.at(at).source)
          if (!incoming.contains(at) || ++steps > plan.ranks()) return false;
        if (t.source == owner) continue;
        auto const& before = incoming.at(t.source);
        if (before.round >= t.round || before > t) return false;
      }
    }
  return true;
}

[[nodiscard]] bool accepts(transfer_plan const& plan) {
  try {
    verify(plan);
    return true;
  } catch (fssdp::plan_error const&) {
    return false;
  }
}

using transfers = std::vector<transfer>;

[[nodiscard]] transfer& any_of(transfers& list, dice& draw) {
  return list[static_cast<std::size_t>(draw.between(0, static_cast<int>(list.size()) - 1))];
}

void drop(transfers& list, dice& draw, random_instance const&) {
  std::swap(any_of(list, draw), list.back());
  list.pop_back();
}
void duplicate(transfers& list, dice& draw, random_instance const&) {
  list.push_back(any_of(list, draw));
}
void swap_ends(transfers& list, dice& draw, random_instance const&) {
  auto& t = any_of(list, draw);
  std::swap(t.source, t.destination);
}
void retarget(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).destination = rank_id{draw.between(0, of.layout.ranks() - 1)};
}
void send_from_elsewhere(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).source = rank_id{draw.between(0, of.layout.ranks() - 1)};
}
void send_another_expert(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).chunk.expert = expert_id{draw.between(0, of.layout.experts() - 1)};
}
void send_another_slice(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).chunk.slice = fssdp::slice_id{draw.between(0, of.layout.slices() - 1)};
}
void send_another_piece(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).piece = draw.between(0, of.plan.pieces() - 1);
}
void swap_orders(transfers& list, dice& draw, random_instance const&) {
  std::swap(any_of(list, draw).order, any_of(list, draw).order);
}
void move_to_another_round(transfers& list, dice& draw, random_instance const& of) {
  any_of(list, draw).round = draw.between(0, of.plan.rounds());
}
void swap_rounds(transfers& list, dice& draw, random_instance const&) {
  std::swap(any_of(list, draw).round, any_of(list, draw).round);
}
void reverse_rounds(transfers& list, dice&, random_instance const& of) {
  for (auto& t : list) t.round = of.plan.rounds() - 1 - t.round;
}

/// The plan with other transfers; none if its constructor refuses them already.
[[nodiscard]] std::optional<transfer_plan> with(random_instance const& of, transfers const& list) {
  try {
    return of.plan.realised_by(list, of.plan.pieces());
  } catch (fssdp::argument_error const&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("verify refuses every mutant that does not deliver, and only those") {
  using mutation = void (*)(transfers&, dice&, random_instance const&);
  auto const mutations = std::vector<mutation>{drop,
                                               duplicate,
                                               swap_ends,
                                               retarget,
                                               send_from_elsewhere,
                                               send_another_expert,
                                               send_another_slice,
                                               send_another_piece,
                                               swap_orders,
                                               move_to_another_round,
                                               swap_rounds,
                                               reverse_rounds};
  auto refused = std::vector<int>(mutations.size());
  auto draw = dice{11};
  support::for_random_instances([&](random_instance const& of) {
    REQUIRE(delivers(of.plan));
    if (of.plan.transfers().empty()) return;
    for (std::size_t m = 0; m < mutations.size(); ++m) {
      auto list = transfers(of.plan.transfers().begin(), of.plan.transfers().end());
      mutations[m](list, draw, of);
      auto const mutant = with(of, list);
      if (mutant && *mutant == of.plan) continue;
      CAPTURE(m);
      auto const accepted = mutant && accepts(*mutant);
      REQUIRE(accepted == (mutant && delivers(*mutant)));
      refused[m] += accepted ? 0 : 1;
    }
  });
  CAPTURE(refused);
  REQUIRE(std::ranges::min(refused) > 0);  // every kind of mutant has been met
}

TEST_CASE("drops, duplicates and swapped ends are refused without exception") {
  auto draw = dice{12};
  support::for_random_instances([&](random_instance const& of) {
    if (of.plan.transfers().empty()) return;
    for (auto const mutate : {drop, duplicate, swap_ends}) {
      auto list = transfers(of.plan.transfers().begin(), of.plan.transfers().end());
      mutate(list, draw, of);
      auto const mutant = with(of, list);
      REQUIRE((!mutant.has_value() || !accepts(*mutant)));
    }
  });
}

TEST_CASE("verify names the transfer or the holder at fault") {
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const e = expert_id{0};
  auto const layout = support::reversed_layout{4, {r(0)}};
  auto where = fssdp::placement{layout};
  where.add(e, r(1));
  where.add(e, r(2));
  auto const refuses = [&](transfers const& list, char const* a, char const* b) {
    auto const plan = transfer_plan{layout, where, list};
    REQUIRE_THROWS_AS(verify(plan), fssdp::plan_error);
    REQUIRE_THROWS_WITH(verify(plan), mentions(a) && mentions(b));
  };
  REQUIRE_NOTHROW(verify(transfer_plan{layout, where, {{0, e, r(0), r(1)}, {1, e, r(1), r(2)}}}));
  refuses({{0, e, r(0), r(1)}}, "rank 2 holds expert 0", "never gets piece 0 of slice 0");
  refuses({{0, e, r(2), r(1)}}, "from rank 2", "never gets it before");
  refuses({{0, e, r(0), r(1)}, {0, e, r(1), r(2)}}, "from rank 1 to rank 2",
          "gets it only in round 0");
  refuses({{0, e, r(0), r(1)}, {1, e, r(0), r(2)}}, "to rank 2 in round 1",
          "sends it in round 0, too");
  refuses({{0, e, r(0), r(1)}, {0, e, r(0), r(2)}, {0, e, r(0), r(3)}}, "rank 3 gets piece 0",
          "holds the expert or passes it on");
  refuses({{0, e, r(0), r(1)}, {0, e, r(0), r(1)}}, "to rank 1", "has it already");
}
