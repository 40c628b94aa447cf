// SPDX-License-Identifier: Apache-2.0
/// Finds out whether all ranks have come with the same plans, while the host goes on.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/nccl/nccl_context.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// What a rank tells the others about its plans. Its size is the same however many there are: NCCL
/// has no error for messages whose sizes differ.
struct plans_summary {
  static constexpr std::size_t most_listed = 61;

  std::uint64_t comparison = 0;                       // how many there have been, with this one
  std::uint64_t count = 0;                            // of plans
  std::uint64_t hash = 0;                             // of all of them
  std::array<std::uint64_t, most_listed> plans = {};  // the first ones

  friend bool operator==(plans_summary const&, plans_summary const&) = default;
};
static_assert(sizeof(plans_summary) == nccl_context::pinned_row);

[[nodiscard]] inline plans_summary summary_of(std::span<std::uint64_t const> plans,
                                              std::uint64_t comparison) {
  auto summary = plans_summary{.comparison = comparison, .count = plans.size()};
  auto all = hasher{};
  for (auto const plan : plans) all.mix(plan);
  summary.hash = all.value();
  std::ranges::copy(plans.first(std::min(plans.size(), summary.plans.size())),
                    summary.plans.begin());
  return summary;
}
/// How the plans of two ranks differ.
[[nodiscard]] inline std::string difference(plans_summary const& here, plans_summary const& there) {
  auto const listed = std::min({here.count, there.count, here.plans.size()});
  for (std::size_t i = 0; i < listed; ++i)
    if (here.plans[i] != there.plans[i])
      return text("plans ", hexadecimal{here.plans[i]}, " and ", hexadecimal{there.plans[i]});
  if (here.count != there.count) return text(here.count, " plans and ", there.count);
  if (here.comparison != there.comparison)
    return text("plans are compared for the ", here.comparison, ". time here, for the ",
                there.comparison, ". there");
  return text("of ", here.count, " plans, one behind the first ", listed);
}

/// Plans that all ranks have, the last ones of all that were compared. All ranks forget alike.
class common_plans {
 public:
  [[nodiscard]] bool contain(std::uint64_t plan) const {
    return std::ranges::find(ring_, plan) != ring_.end();
  }
  void add(std::span<std::uint64_t const> plans) {
    most_ = std::max(most_, 4 * plans.size());
    for (auto const plan : plans)
      if (ring_.size() < most_)
        ring_.push_back(plan);
      else
        ring_[next_++ % ring_.size()] = plan;
  }

 private:
  std::size_t most_ = 256;
  std::vector<std::uint64_t> ring_;
  std::size_t next_ = 0;
};

/// Compares plans, one list at a time: the exchange is enqueued, and what has come of it is looked
/// at when somebody wants to go by one of those plans.
class nccl_agreement {
 public:
  explicit nccl_agreement(rank_id me) : me_{me}, is_over_{make_cuda_event(me)} {}

  /// Whether all ranks have a plan, as far as this one has seen.
  [[nodiscard]] bool knows(std::uint64_t plan) const { return known_.contain(plan); }
  /// Whether a plan is being compared.
  [[nodiscard]] bool compares(std::uint64_t plan) const {
    return is_under_way_ && std::ranges::find(plans_, plan) != plans_.end();
  }
  /// How often the host has had to wait for a comparison.
  [[nodiscard]] std::uint64_t waits() const { return waits_; }

  /// Enqueues a comparison. Waits for the one before, which is over as a rule.
  /// @throws as wait
  void begin(nccl_context& context, std::span<std::uint64_t const> plans) {
    wait(context);
    plans_.assign(plans.begin(), plans.end());
    mine_ = summary_of(plans, ++comparisons_);
    context.guarded([&] {
      auto const pinned = context.pinned();
      std::memcpy(pinned.data(), &mine_, sizeof mine_);
      context.gather_pinned();
      cuda_require(cudaEventRecord(is_over_.get(), context.stream()), me_, "cudaEventRecord");
    });
    is_under_way_ = true;
  }
  /// Takes in how the comparison has ended, if it is over.
  /// @throws ranks_disagree
  void look(nccl_context& context) {
    if (is_under_way_ && query(is_over_.get()) == cudaSuccess) take_in(context);
  }
  /// Waits for the comparison that is under way.
  /// @throws ranks_disagree; deadline_exceeded; transport_error
  void wait(nccl_context& context) {
    look(context);
    if (!is_under_way_) return;
    ++waits_;
    context.wait_for(is_over_.get(), "agree");
    take_in(context);
  }

 private:
  void take_in(nccl_context& context) {
    is_under_way_ = false;
    auto const rows = context.pinned().subspan(sizeof mine_);
    for (std::size_t peer = 0; peer * sizeof mine_ < rows.size(); ++peer) {
      auto theirs = plans_summary{};
      std::memcpy(&theirs, rows.data() + peer * sizeof mine_, sizeof theirs);
      if (theirs == mine_) continue;
      auto const error = disagreement(me_, rank_id{peer}, difference(mine_, theirs));
      context.give_up(std::make_exception_ptr(error));
      throw error;
    }
    known_.add(plans_);
  }

  rank_id me_;
  cuda_event is_over_;
  bool is_under_way_ = false;
  plans_summary mine_;
  std::vector<std::uint64_t> plans_;  // that are compared
  common_plans known_;
  std::uint64_t comparisons_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace fssdp::detail
