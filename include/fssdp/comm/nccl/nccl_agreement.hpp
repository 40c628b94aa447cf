// SPDX-License-Identifier: Apache-2.0
/// Checks asynchronously that all ranks have the same plans.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/nccl/nccl_context.hpp"
#include "fssdp/comm/plans_summary.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

static_assert(sizeof(plans_summary) == nccl_context::pinned_row);

/// Compares plans, one list at a time: the exchange is enqueued, and its result is read when one of
/// these plans is needed.
class nccl_agreement {
 public:
  explicit nccl_agreement(rank_id me) : me_{me}, is_over_{make_cuda_event(me)} {}

  /// Whether all ranks have a plan, as far as this rank knows.
  [[nodiscard]] bool knows(std::uint64_t plan) const { return known_.contain(plan); }
  /// Whether a plan is being compared.
  [[nodiscard]] bool compares(std::uint64_t plan) const {
    return is_under_way_ && std::ranges::find(plans_, plan) != plans_.end();
  }
  /// How often the host has waited for a comparison.
  [[nodiscard]] std::uint64_t waits() const { return waits_; }

  /// Enqueues a comparison. Waits for an earlier one, which usually has finished.
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
  /// Reads the result of the comparison if it has finished.
  /// @throws ranks_disagree
  void look(nccl_context& context) {
    if (is_under_way_ && query(is_over_.get()) == cudaSuccess) take_in(context);
  }
  /// Waits for the comparison in progress.
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
    if (auto const error = disagreement_in(rows, me_, mine_)) {
      context.give_up(std::make_exception_ptr(*error));
      throw *error;
    }
    known_.add(plans_);
  }

  rank_id me_;
  cuda_event is_over_;
  bool is_under_way_ = false;
  plans_summary mine_;
  std::vector<std::uint64_t> plans_;  // being compared
  common_plans known_;
  std::uint64_t comparisons_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace fssdp::detail
