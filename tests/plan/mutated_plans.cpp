// SPDX-License-Identifier: Apache-2.0
/// Ten thousand plans with random changes, up to the largest numbers of an int.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/laws.hpp"
#include "support/scheduled_instance.hpp"

namespace {

/// The transfers of a plan, to be changed.
struct loose_plan {
  fssdp::transfer_plan const& of;
  std::vector<fssdp::transfer> transfers = {of.transfers().begin(), of.transfers().end()};
  int pieces = of.pieces();
  std::vector<std::string> changes = {};  ///< for who looks for what went wrong

  void mutate(support::dice& draw) {
    auto const kind = draw.between(0, 13);
    if (kind == 0) return note("pieces", pieces = number(draw, 8));
    if (transfers.empty()) return;
    auto const last = static_cast<int>(transfers.size()) - 1;
    auto const at = draw.between(0, last);
    auto& t = transfers[static_cast<std::size_t>(at)];
    auto& other = transfers[static_cast<std::size_t>(draw.between(0, last))];
    auto const name = "transfer " + std::to_string(at) + ": ";
    switch (kind) {
      case 1:
        note(name + "round", t.round = number(draw, last + 1));
        break;
      case 2:
        note(name + "order", t.order = number(draw, last + 1));
        break;
      case 3:
        note(name + "expert",
             (t.chunk.expert = fssdp::expert_id{number(draw, of.experts())}).value());
        break;
      case 4:
        note(name + "slice", (t.chunk.slice = fssdp::slice_id{number(draw, of.slices())}).value());
        break;
      case 5:
        note(name + "source", (t.source = fssdp::rank_id{number(draw, of.ranks())}).value());
        break;
      case 6:
        note(name + "destination",
             (t.destination = fssdp::rank_id{number(draw, of.ranks())}).value());
        break;
      case 7:
        note(name + "piece", t.piece = number(draw, of.pieces()));
        break;
      case 8:
        note(name + "dropped, of", last + 1);
        transfers.erase(transfers.begin() + at);
        break;
      case 9:
        note(name + "twice, of", last + 1);
        transfers.push_back(fssdp::transfer{t});
        break;
      case 10:
        note(name + "rounds swapped with", other.round);
        std::swap(t.round, other.round);
        break;
      case 11:
        note(name + "orders swapped with", other.order);
        std::swap(t.order, other.order);
        break;
      case 12:
        note(name + "ends swapped, of", last + 1);
        std::swap(t.source, t.destination);
        break;
      default:
        note("all orders", t.order);
        for (auto& each : transfers) each.order = t.order;
    }
  }

  /// The numbers that no plan can have; without one it is not to be refused.
  [[nodiscard]] std::set<std::string> impossible() const {
    auto values = std::set<std::string>{};
    auto const expect = [&](int value, int first, int last) {
      auto const can_be = value >= first && value <= last;
      if (!can_be) values.insert(std::to_string(value));
      return can_be;
    };
    expect(pieces, 1, fssdp::most_pieces);
    if (!values.empty()) return values;
    for (auto const& t : transfers) {
      auto const is_expert = expect(t.chunk.expert.value(), 0, of.experts() - 1);
      auto const is_slice = expect(t.chunk.slice.value(), 0, of.slices() - 1);
      for (auto const end : {t.source, t.destination}) expect(end.value(), 0, of.ranks() - 1);
      expect(t.piece, 0, pieces - 1);
      expect(t.round, 0, static_cast<int>(transfers.size()) - 1);
      if (t.source == t.destination ||
          (is_expert && is_slice && of.owner(t.chunk) == t.destination))
        values.insert(std::to_string(t.destination.value()));
    }
    return values;
  }

 private:
  /// Most often one of 0 to `end` - 1.
  static int number(support::dice& draw, int end) {
    using limits = std::numeric_limits<int>;
    if (draw.chance(60)) return draw.between(0, end - 1);
    return draw.one_of(
        std::vector{end, -1, limits::min(), limits::max(), fssdp::most_pieces + 1, -65'536});
  }
  void note(std::string const& what, int value) {
    changes.push_back(what + " " + std::to_string(value));
  }
};

/// Plays a gather in memory: whether everybody sends what he has, gets nothing twice, and all who
/// hold an expert have all of it in the end.
class played_gather {
 public:
  explicit played_gather(fssdp::transfer_plan const& plan)
      : plan_{plan},
        has_(static_cast<std::size_t>(plan.experts() * plan.slices() * plan.pieces() *
                                      plan.ranks())) {
    for_all_pieces([&](fssdp::piece_id piece) { at(piece, plan.owner(piece.chunk)) = 1; });
  }
  /// A round at once, as communicators exchange batches.
  [[nodiscard]] bool by_rounds() {
    auto in_rounds = std::vector(plan_.transfers().begin(), plan_.transfers().end());
    std::ranges::stable_sort(in_rounds, {}, &fssdp::transfer::round);
    for (auto t = in_rounds.begin(); t != in_rounds.end();) {
      auto const end = std::find_if(t, in_rounds.end(),
                                    [&](auto const& later) { return later.round != t->round; });
      if (!std::all_of(t, end, [&](auto const& each) { return at(each.what(), each.source) == 1; }))
        return false;
      for (; t != end; ++t)
        if (at(t->what(), t->destination)++ > 0) return false;
    }
    return is_complete();
  }
  /// One by one in canonical order, as ports serve them.
  [[nodiscard]] bool in_order() {
    for (auto const& t : plan_.transfers())
      if (at(t.what(), t.source) == 0 || at(t.what(), t.destination)++ > 0) return false;
    return is_complete();
  }

 private:
  template <class Visit>
  void for_all_pieces(Visit visit) {
    for (auto const chunk : fssdp::chunk_range{0, plan_.experts() * plan_.slices(), plan_.slices()})
      for (int piece = 0; piece < plan_.pieces(); ++piece) visit(fssdp::piece_id{chunk, piece});
  }
  [[nodiscard]] char& at(fssdp::piece_id const& piece, fssdp::rank_id rank) {
    auto const chunk = piece.chunk.expert.value() * plan_.slices() + piece.chunk.slice.value();
    auto const cell = (chunk * plan_.pieces() + piece.index) * plan_.ranks() + rank.value();
    return has_[static_cast<std::size_t>(cell)];
  }
  [[nodiscard]] bool is_complete() {
    auto lacking = 0;
    for_all_pieces([&](fssdp::piece_id piece) {
      for (auto const rank : plan_.where().holders(piece.chunk.expert))
        lacking += at(piece, rank) == 1 ? 0 : 1;
    });
    return lacking == 0;
  }

  fssdp::transfer_plan const& plan_;
  std::vector<char> has_;  // [pieces, ranks]: how often
};

/// What becomes of a changed plan.
struct reception {
  bool made = false;
  bool verified = false;
  bool is_new = false;
};

/// The words of a refusal before it says what was expected, numbers among them.
[[nodiscard]] std::set<std::string> words_of_complaint(std::string const& said) {
  auto words = std::istringstream{said.substr(0, said.find("; expected"))};
  return {std::istream_iterator<std::string>{words}, {}};
}

/// Refused with a reason, or right.
[[nodiscard]] reception receive(loose_plan const& loose, std::size_t chunk_bytes) {
  auto const impossible = loose.impossible();
  auto plan = loose.of;
  try {
    plan = loose.of.realised_by(loose.transfers, loose.pieces);
  } catch (fssdp::argument_error const& error) {
    auto const said = std::string{error.what()};
    CAPTURE(said, impossible);
    REQUIRE(said.starts_with("plan: "));
    REQUIRE(said.find("expected") != said.npos);
    auto const named = words_of_complaint(said);
    REQUIRE(
        std::ranges::any_of(impossible, [&](auto const& value) { return named.contains(value); }));
    return {};
  }
  REQUIRE(impossible.empty());
  auto const is_new = !(plan == loose.of);
  REQUIRE(is_new == (plan.hash_value() != loose.of.hash_value()));
  auto const is_right = played_gather{plan}.by_rounds() && played_gather{plan}.in_order();
  try {
    verify(plan);
  } catch (fssdp::plan_error const& error) {
    auto const said = std::string{error.what()};
    CAPTURE(said);
    REQUIRE(said.starts_with("plan: "));
    if (is_right)  // what a reduction minds, and bytes for nothing
      REQUIRE((said.ends_with(", too") || said.ends_with("passes it on")));
    return {.made = true, .verified = false, .is_new = is_new};
  }
  REQUIRE(is_right);
  auto const played = simulate(plan, chunk_bytes);
  REQUIRE(std::isfinite(played.seconds));
  REQUIRE(played.seconds >= lower_bound(plan, chunk_bytes).seconds * (1 - 1e-9));
  return {.made = true, .verified = true, .is_new = is_new};
}

}  // namespace

TEST_CASE("a plan changed at random is refused with the reason, or is valid") {
  constexpr auto plans = 500;
  constexpr auto mutants = 20;
  auto const limits = support::size_limits{.ranks = 8, .experts = 8, .slices = 3};
  auto refused = 0;
  auto failed = 0;
  auto verified = 0;
  for (auto seed = std::uint64_t{1}; seed <= plans; ++seed) {
    auto draw = support::dice{seed + 1'000'000};
    auto const base = support::scheduled_instance{seed, limits};
    auto const& plan = *draw.one_of(std::vector{&base.plan, &base.base, &base.of.plan});
    for (int mutant = 0; mutant < mutants; ++mutant) {
      auto loose = loose_plan{plan};
      for (int times = draw.between(1, 3); times > 0; --times) loose.mutate(draw);
      CAPTURE(seed, mutant, loose.changes);
      auto const [made, is_verified, is_new] = receive(loose, base.chunk_bytes);
      refused += made ? 0 : 1;
      failed += made && !is_verified ? 1 : 0;
      verified += is_verified && is_new ? 1 : 0;
    }
  }
  CAPTURE(refused, failed, verified);
  REQUIRE(std::min({refused, failed, verified}) > plans * mutants / 20);
}

TEST_CASE("impossible pieces are refused, also where transfers are replaced") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  for (auto const pieces : {0, -1, (1 << 16) + 1, std::numeric_limits<int>::max()}) {
    CAPTURE(pieces);
    auto const said = mentions(std::to_string(pieces) + " pieces; expected 1 to 65536");
    REQUIRE_THROWS_AS(plan.realised_by({}, pieces), fssdp::argument_error);
    REQUIRE_THROWS_WITH(plan.realised_by({}, pieces), said);
    REQUIRE_THROWS_WITH((fssdp::transfer_plan{layout, plan.where(), {}, {}, pieces}), said);
  }
}
