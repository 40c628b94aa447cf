// SPDX-License-Identifier: Apache-2.0
/// The algorithm of ownership_planner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/solver/ownership_exact.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "fssdp/solver/ownership_search.hpp"
#include "fssdp/solver/ownership_units.hpp"

namespace fssdp {

namespace detail {

/// The steps of the algorithm, over units.
class ownership_course {
 public:
  ownership_course(ownership_problem problem, ownership_planner const& options)
      : of_{std::move(problem)},
        free_{.most_moved = ownership_terms::unlimited,
              .precision = options.precision,
              .trials = options.trials},
        priced_{.price = options.price_per_byte,
                .most_moved = options.most_moved_bytes,
                .precision = options.precision,
                .trials = options.trials},
        is_small_{of_.units() <= options.exact_items},
        order_{by_weight(of_)} {}

  /// @return [units]
  [[nodiscard]] std::vector<int> solve() {
    auto const has_former_owners = std::exchange(of_.has_former_owners, false);
    auto from_scratch = solve_from_scratch();
    auto gathered = gather_groups(from_scratch, free_);
    of_.has_former_owners = has_former_owners;
    if (!has_former_owners || is_at_former_owners(gathered)) return gathered;
    return gather_groups(solve_from_former_owners(std::move(from_scratch)), terms_with_forced());
  }
  [[nodiscard]] ownership_problem const& problem() const { return of_; }
  [[nodiscard]] std::uint64_t forced_bytes() const { return forced_; }
  [[nodiscard]] ownership_state state_of(std::vector<int> const& owners) const {
    auto state = ownership_state{of_};
    for (int u = 0; u < of_.units(); ++u) state.place(u, owners[at(u)]);
    return state;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  [[nodiscard]] std::vector<int> solve_from_scratch() {
    auto state = ownership_state{of_};
    auto search = ownership_search{state, free_};
    if (search.settle(order_) >= 0) {
      for (int u = 0; u < of_.units(); ++u)
        if (state.owner(u) >= 0) state.remove(u);
      place_apart(state);
      search.settle(order_);
    }
    search.descend();
    return refined(state.owners(), free_);
  }

  [[nodiscard]] std::vector<int> solve_from_former_owners(std::vector<int> from_scratch) {
    auto state = ownership_state{of_};
    place_at_former_owners(state);
    auto search = ownership_search{state, terms_with_forced()};
    if (search.settle(order_) >= 0) {
      for (int u = 0; u < of_.units(); ++u)
        if (state.owner(u) >= 0) state.remove(u);
      place_apart(state);
      place_at_former_owners(state);
      search.settle(order_);
    }
    search.descend();
    auto const terms = terms_with_forced();
    auto const other = state_of(from_scratch);
    auto const cost = terms.cost(state.fullness(), state.moved_bytes());
    auto const is_better =
        other.moved_bytes() <= terms.most_moved &&
        terms.cost(other.fullness(), other.moved_bytes()) < cost * (1 - terms.precision);
    return refined(is_better ? std::move(from_scratch) : state.owners(), terms);
  }

  /// The owners after branch and bound, if there are few units.
  [[nodiscard]] std::vector<int> refined(std::vector<int> owners,
                                         ownership_terms const& terms) const {
    if (is_small_) ownership_exact{of_, terms}.improve(owners);
    return owners;
  }
  [[nodiscard]] std::vector<int> gather_groups(std::vector<int> const& owners,
                                               ownership_terms const& terms) const {
    if (of_.groups.empty()) return owners;
    auto state = state_of(owners);
    ownership_search{state, terms}.gather_groups();
    return state.owners();
  }

  /// Assigns units to the previous owner, or to that of most of their bytes, if allowed.
  void place_at_former_owners(ownership_state& state) {
    forced_ = 0;
    for (auto const unit : order_) {
      auto best = ownership_problem::former_owner{-1, 0};
      auto all = std::uint64_t{0};
      for (auto const& former : of_.former_owners[at(unit)]) {
        all += former.bytes;
        if (state.owner(unit) < 0 && state.fits(unit, former.rank) &&
            (best.rank < 0 || former.bytes > best.bytes ||
             (former.bytes == best.bytes && former.rank < best.rank)))
          best = former;
      }
      if (best.rank >= 0) state.place(unit, best.rank);
      forced_ += state.owner(unit) >= 0 ? of_.moved(unit, state.owner(unit)) : all;
    }
  }
  [[nodiscard]] bool is_at_former_owners(std::vector<int> const& owners) const {
    for (int u = 0; u < of_.units(); ++u) {
      auto const& former_owners = of_.former_owners[at(u)];
      if (former_owners.size() != 1 || former_owners.front().rank != owners[at(u)]) return false;
    }
    return true;
  }
  [[nodiscard]] ownership_terms terms_with_forced() const {
    auto terms = priced_;
    terms.most_moved = std::max(terms.most_moved, forced_);
    return terms;
  }

  void place_apart(ownership_state& state) const {
    auto apart = apart_units{of_};
    auto const found = apart.settle();
    require(found, "ownership_planner: ",
            apart.is_proven() ? "`apart` and `on_ranks` leave no rank for item "
                              : "no rank was found, within the limit of the search, for item ",
            apart.stuck() < 0 ? -1 : of_.first_item[at(apart.stuck())],
            ", given the items that it is apart from; expected constraints that leave one");
    for (int u = 0; u < of_.units(); ++u)
      if (apart.owners()[at(u)] >= 0) state.place(u, apart.owners()[at(u)]);
  }

  ownership_problem of_;
  ownership_terms free_;
  ownership_terms priced_;
  bool is_small_;
  std::vector<int> order_;
  std::uint64_t forced_ = 0;
};

inline void check_options(ownership_planner const& of) {
  auto const natural = [](double value) { return value >= 0 && value <= 1e300; };
  auto const check = [&](double value, char const* name) {
    require(natural(value), "ownership_planner: ", name, " is ", value, "; expected 0 or more");
  };
  check(of.weights.bytes, "the weight of bytes");
  check(of.weights.step_cost, "the weight of step_cost");
  check(of.weights.load, "the weight of load");
  check(of.weights.interface, "the weight of interface");
  check(of.price_per_byte, "price_per_byte");
  require(of.precision >= 0 && of.precision < 1, "ownership_planner: precision is ", of.precision,
          "; expected 0 to less than 1");
  require(of.trials >= 0, "ownership_planner: trials is ", of.trials, "; expected 0 or more");
  require(of.exact_items >= 0, "ownership_planner: exact_items is ", of.exact_items,
          "; expected 0 or more");
}

}  // namespace detail

FSSDP_INLINE ownership_plan ownership_planner::operator()(std::span<owned_item const> items,
                                                          topology const& topo,
                                                          ownership_constraints const& constraints,
                                                          std::span<rank_id const> before) const {
  detail::check_options(*this);
  auto problem = detail::ownership_units{items, topo, constraints, before}.take();
  problem.set_scales(topo, {weights.bytes, weights.step_cost, weights.load}, weights.interface);
  auto course = detail::ownership_course{std::move(problem), *this};
  auto const owners = course.solve();
  auto const& of = course.problem();

  auto state = course.state_of(owners);
  auto plan = ownership_plan{.ranks = topo.ranks(),
                             .fullness = state.fullness(),
                             .bound = of.bound,
                             .moved_bytes = state.moved_bytes(),
                             .forced_bytes = course.forced_bytes(),
                             .near_sets = detail::ownership_search{state, {}}.gathered_groups()};
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto const owner = owners[static_cast<std::size_t>(of.unit_of[i])];
    plan.owners.emplace_back(of.rank_name[static_cast<std::size_t>(owner)]);
    if (!before.empty() && before[i].value() >= 0 && before[i] != plan.owners.back())
      ++plan.moved_items;
  }
  for (int rank = 0; rank < topo.ranks(); ++rank) {
    auto const& [bytes, step_cost, load] = state.on_rank(rank);
    plan.most.bytes = std::max(plan.most.bytes, bytes);
    plan.most.step_cost = std::max(plan.most.step_cost, step_cost);
    plan.most.load = std::max(plan.most.load, load);
  }
  return plan;
}

}  // namespace fssdp
