// SPDX-License-Identifier: Apache-2.0
/// The best placement and routing there is, under the budgets of a solver and the model of
/// layer_cost, as a mixed integer program.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/placement/placement.hpp"
#include "fssdp/topology/topology.hpp"
#include "optimum/materialization_problem.hpp"
#include "optimum/mixed_integer_program.hpp"

namespace optimum {

/// A token may be cut in two: the bound holds for whole ones all the more. Gathers are hidden.
class best_materialization {
 public:
  explicit best_materialization(materialization_problem const& of) : of_{of} {
    auto const seconds = static_cast<double>(of.rates.token_bytes) * 4;
    fullest_ = program_.add_real(3 * of.rates.forward_seconds_per_row * unit());
    busiest_ = program_.add_real(seconds * unit());
    for (auto const expert : experts()) place(expert);
    limit_slots();
    limit_ports();
    bound_loads();
    bound_traffic();
  }

  /// Only the routing is left to choose.
  void fix(fssdp::placement const& where) {
    for (auto const expert : experts())
      for (auto const rank : ranks())
        program_.fix(experts_[expert.index()].held[rank.index()],
                     where.holds(rank, expert) ? 1 : 0);
  }

  /// In seconds, as layer_cost has them.
  [[nodiscard]] mixed_integer_program::outcome solve(double gap, double seconds) const {
    return program_.solve(gap, seconds);
  }

 private:
  using term = mixed_integer_program::term;
  using terms = std::vector<term>;

  struct of_expert {
    std::vector<int> held;      // [ranks]: choice
    std::vector<int> tokens;    // [ranks]
    std::vector<int> local;     // [ranks]: of those, its own
    std::vector<int> from_far;  // [ranks]: of those, from other nodes
    std::vector<int> to_far;    // [ranks]: its own, to other nodes
    std::vector<int> hosted;    // [nodes]: choice
    int leaves = 0;             // choice
  };

  [[nodiscard]] fssdp::index_range<fssdp::expert_id> experts() const {
    return fssdp::first_n<fssdp::expert_id>(static_cast<int>(of_.owners.size()));
  }
  [[nodiscard]] fssdp::index_range<fssdp::rank_id> ranks() const {
    return fssdp::first_n<fssdp::rank_id>(of_.topo.ranks());
  }
  [[nodiscard]] fssdp::index_range<fssdp::node_id> nodes() const {
    return fssdp::first_n<fssdp::node_id>(of_.topo.nodes());
  }
  /// Tokens are counted in the average load of a rank.
  [[nodiscard]] double unit() const {
    auto sum = 0.0;
    for (auto const tokens : of_.counts.values()) sum += static_cast<double>(tokens);
    return sum / of_.topo.ranks();
  }
  [[nodiscard]] double counted(fssdp::rank_id rank, fssdp::expert_id expert) const {
    return static_cast<double>(of_.counts(rank, expert)) / unit();
  }

  void place(fssdp::expert_id expert) {
    auto const owner = of_.owners[expert.index()];
    auto e = of_expert{};
    auto total = 0.0;
    for (auto const rank : ranks()) total += counted(rank, expert);
    for (auto n = 0; n < of_.topo.nodes(); ++n) e.hosted.push_back(program_.add_choice());
    e.leaves = program_.add_choice();
    auto all = terms{};
    for (auto const rank : ranks()) {
      e.held.push_back(program_.add_choice());
      e.tokens.push_back(program_.add_real());
      e.local.push_back(program_.add_real());
      e.from_far.push_back(program_.add_real());
      e.to_far.push_back(program_.add_real());
      auto const own = counted(rank, expert);
      if (rank == owner) program_.fix(e.held.back(), 1);
      if (of_.topo.nodes() == 1) {  // there is no other node to go through
        program_.fix(e.from_far.back(), 0);
        program_.fix(e.to_far.back(), 0);
      }
      program_.at_most({{e.tokens.back(), 1}, {e.held.back(), -total}}, 0);
      program_.at_most({{e.local.back(), 1}, {e.held.back(), -own}}, 0);
      program_.at_most({{e.local.back(), 1}, {e.from_far.back(), 1}, {e.tokens.back(), -1}}, 0);
      program_.at_most({{e.local.back(), 1}, {e.to_far.back(), 1}}, own);
      program_.at_most({{e.held.back(), 1}, {e.hosted[of_.topo.node(rank).index()], -1}}, 0);
      all.push_back({e.tokens.back(), 1});
    }
    program_.equal(all, total);
    for (auto const node : nodes())
      if (node != of_.topo.node(owner))
        program_.at_most({{e.hosted[node.index()], 1}, {e.leaves, -1}}, 0);
    for (auto const node : nodes()) balance_node(e, expert, node);
    experts_.push_back(std::move(e));
  }

  /// What a node works on is what it has counted, what comes, and what has not left.
  void balance_node(of_expert const& e, fssdp::expert_id expert, fssdp::node_id node) {
    auto sum = terms{};
    auto own = 0.0;
    for (auto const rank : of_.topo.ranks_on(node)) {
      sum.push_back({e.tokens[rank.index()], 1});
      sum.push_back({e.from_far[rank.index()], -1});
      sum.push_back({e.to_far[rank.index()], 1});
      own += counted(rank, expert);
    }
    program_.equal(sum, own);
  }

  void limit_slots() {
    for (auto const rank : ranks()) {
      auto sum = terms{};
      for (auto const expert : experts())
        if (of_.owners[expert.index()] != rank)
          sum.push_back({experts_[expert.index()].held[rank.index()], 1});
      program_.at_most(sum, of_.budget.spare_slots);
    }
  }

  void limit_ports() {
    for (auto const node : nodes()) {
      auto in = terms{};
      auto out = terms{};
      for (auto const expert : experts()) {
        auto const owned = of_.topo.node(of_.owners[expert.index()]) == node;
        auto const& e = experts_[expert.index()];
        (owned ? out : in).push_back({owned ? e.leaves : e.hosted[node.index()], 1});
      }
      program_.at_most(in, of_.budget.experts_in);
      program_.at_most(out, of_.budget.experts_out);
    }
  }

  void bound_loads() {
    for (auto const rank : ranks()) {
      auto sum = terms{{fullest_, -1}};
      for (auto const& e : experts_) sum.push_back({e.tokens[rank.index()], 1});
      program_.at_most(sum, 0);
    }
  }

  void bound_traffic() {
    for (auto const node : nodes()) {
      auto const bandwidth = fssdp::node_bandwidth(of_.topo, node);
      auto in = terms{{busiest_, -bandwidth}};
      auto out = in;
      for (auto const& e : experts_)
        for (auto const rank : of_.topo.ranks_on(node)) {
          in.push_back({e.from_far[rank.index()], 1});
          out.push_back({e.to_far[rank.index()], 1});
        }
      program_.at_most(in, 0);
      program_.at_most(out, 0);
    }
    for (auto const rank : ranks()) {
      auto in = terms{{busiest_, -of_.topo.port(rank).inside_bytes_per_second}};
      auto out = in;
      auto own = 0.0;
      for (auto const expert : experts()) {
        auto const& e = experts_[expert.index()];
        in.push_back({e.tokens[rank.index()], 1});
        in.push_back({e.local[rank.index()], -1});
        in.push_back({e.from_far[rank.index()], -1});
        out.push_back({e.local[rank.index()], -1});
        out.push_back({e.to_far[rank.index()], -1});
        own += counted(rank, expert);
      }
      program_.at_most(in, 0);
      program_.at_most(out, -own);
    }
  }

  materialization_problem const& of_;
  mixed_integer_program program_;
  std::vector<of_expert> experts_;
  int fullest_ = 0;
  int busiest_ = 0;
};

}  // namespace optimum
