// SPDX-License-Identifier: Apache-2.0
/// Which rows of tokens go where: one rank's part in a dispatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/hasher.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Consecutive rows of one expert that go to, or come from, one rank.
struct token_segment {
  expert_id expert;
  rank_id peer;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(token_segment const&, token_segment const&) = default;
};

/// Consecutive received rows that one expert works on.
struct expert_rows {
  expert_id expert;
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(expert_rows const&, expert_rows const&) = default;
};

/// A pure value: all ranks compute theirs from the same counts, so nothing else is exchanged. Good
/// for the forward and the backward pass of a layer. No token is dropped.
///
/// Rows sent lie by expert, then in the order of the tokens (as permute leaves them); of an
/// expert's rows the first go to its first receiver, and so on. Rows received lie by expert, then
/// by source.
class token_plan {
 public:
  /// Tokens go where the routing sends them.
  /// @throws argument_error if counts and placement differ in ranks or experts, or there is no such
  ///         rank
  template <token_routing Routing>
  token_plan(token_counts const& counts, Routing const& routing, rank_id rank)
      : rank_{rank}, device_loads_(static_cast<std::size_t>(routing.where().ranks())) {
    auto const& where = routing.where();
    detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                    "token_plan: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                    " experts; the placement has ", where.ranks(), " and ", where.experts());
    detail::require(rank.value() >= 0 && rank.value() < where.ranks(), "token_plan: rank ", rank,
                    "; expected 0 to ", where.ranks() - 1);
    for (auto const expert : first_n<expert_id>(where.experts())) {
      auto const before = received_rows_;
      for (auto const source : first_n<rank_id>(where.ranks()))
        routing(source, expert, counts(source, expert),
                [&](rank_id to, std::uint64_t tokens) { add(expert, source, to, tokens); });
      if (where.holds(rank, expert)) groups_.push_back({expert, before, received_rows_ - before});
    }
  }
  /// Tokens go by the paper's rule.
  /// @throws argument_error as above, or if the topology has another number of ranks
  token_plan(token_counts const& counts, placement const& where, rank_id rank,
             topology const& cluster = {})
      : token_plan{counts, even_routing{where, cluster}, rank} {}

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(device_loads_.size()); }
  [[nodiscard]] std::size_t sent_rows() const { return sent_rows_; }
  [[nodiscard]] std::size_t received_rows() const { return received_rows_; }
  /// What leaves, by (expert, receiver); the rank itself may be among the receivers.
  [[nodiscard]] std::span<token_segment const> sends() const { return sends_; }
  /// What arrives, by (expert, source).
  [[nodiscard]] std::span<token_segment const> receives() const { return receives_; }
  /// The rows of every expert that the rank holds, ascending; there may be none of some.
  [[nodiscard]] std::span<expert_rows const> groups() const { return groups_; }
  /// Rows that each rank works on: [ranks].
  [[nodiscard]] std::span<std::uint64_t const> device_loads() const { return device_loads_; }
  /// The same on every rank, and almost surely another one for other counts or placements.
  [[nodiscard]] std::uint64_t hash_value() const { return hash_.value(); }

 private:
  void add(expert_id expert, rank_id source, rank_id to, std::uint64_t tokens) {
    auto const rows = static_cast<std::size_t>(tokens);
    device_loads_[to.index()] += tokens;
    if (source == rank_) {
      sends_.push_back({expert, to, sent_rows_, rows});
      sent_rows_ += rows;
    }
    if (to == rank_) {
      receives_.push_back({expert, source, received_rows_, rows});
      received_rows_ += rows;
    }
    for (auto const number : {expert.index(), source.index(), to.index(), rows}) hash_.mix(number);
  }

  rank_id rank_;
  std::size_t sent_rows_ = 0;
  std::size_t received_rows_ = 0;
  detail::hasher hash_;
  std::vector<token_segment> sends_;
  std::vector<token_segment> receives_;
  std::vector<expert_rows> groups_;
  std::vector<std::uint64_t> device_loads_;
};

}  // namespace fssdp
