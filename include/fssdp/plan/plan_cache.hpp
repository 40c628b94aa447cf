// SPDX-License-Identifier: Apache-2.0
/// Caches plans, as placements repeat between iterations and between layers.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "fssdp/core/error.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// A planner that makes each plan once. The key is the whole input, not only a hash. Any number of
/// threads may use it at the same time, also those of several ranks:
///
///     auto plans = plan_cache{64};
///     auto layers = materializer{comm, shards, {.placement = solver, .planner = std::ref(plans)}};
class plan_cache {
 public:
  /// @param capacity how many plans are kept: the most recently used ones
  /// @param make makes new plans
  /// @throws argument_error if the capacity is 0
  explicit plan_cache(std::size_t capacity, planner make = make_requested_plan)
      : capacity_{capacity}, make_{std::move(make)} {
    detail::require(capacity > 0, "plan_cache: capacity is 0; expected 1 or more");
  }

  /// @post equal to what the planner makes of the request
  /// @cost for a cached plan: comparisons of the request with the cached ones. If several threads
  ///       ask for the same new plan, one makes it and the others wait
  /// @throws as the planner; then nothing is cached
  [[nodiscard]] transfer_plan operator()(plan_request const& of) {
    auto lock = std::unique_lock{mutex_};
    for (;;) {
      auto const known = find(of);
      if (known == nullptr) return make_new(lock, of);
      changed_.wait(lock, [&] { return known->made.has_value() || known->has_failed; });
      if (known->made.has_value()) return *known->made;
    }
  }
  /// The number of plans, including those that are being made.
  [[nodiscard]] std::size_t size() const {
    auto const lock = std::scoped_lock{mutex_};
    return entries_.size();
  }

 private:
  struct entry {
    explicit entry(plan_request const& of)
        : layout{of.layout},
          where{of.where},
          topology{of.topology},
          chunk_bytes{of.chunk_bytes},
          schedule{of.schedule} {}

    [[nodiscard]] bool answers(plan_request const& of) const {
      return where == of.where && chunk_bytes == of.chunk_bytes && schedule == of.schedule &&
             layout == of.layout && topology == of.topology;
    }

    table_layout layout;
    placement where;
    fssdp::topology topology;
    std::size_t chunk_bytes;
    std::optional<schedule_options> schedule;
    std::optional<transfer_plan> made = {};
    bool has_failed = false;
  };

  /// The entry of a request, marked as the most recently used; null if there is none.
  [[nodiscard]] std::shared_ptr<entry> find(plan_request const& of) {
    auto const at = std::ranges::find_if(entries_, [&](auto const& e) { return e->answers(of); });
    if (at == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return entries_.front();
  }
  [[nodiscard]] transfer_plan make_new(std::unique_lock<std::mutex>& lock, plan_request const& of) {
    auto const mine = std::make_shared<entry>(of);
    entries_.push_front(mine);
    if (entries_.size() > capacity_) entries_.pop_back();
    lock.unlock();
    try {
      auto made = make_(of);
      lock.lock();
      mine->made = std::move(made);
    } catch (...) {
      lock.lock();
      mine->has_failed = true;
      entries_.remove(mine);
      changed_.notify_all();
      throw;
    }
    changed_.notify_all();
    return *mine->made;
  }

  std::size_t capacity_;
  planner make_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<entry>> entries_;  // the most recently used first
};

}  // namespace fssdp
