// SPDX-License-Identifier: Apache-2.0
/// Remembers schedules: placements repeat from one iteration to the next.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "fssdp/core/error.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// schedule(plan, chunk_bytes, options), made once for equal arguments. The caller owns it; any
/// number of threads may use it at once. It is keyed by all of its input, not by a hash alone.
class schedule_cache {
 public:
  /// @param capacity how many schedules it keeps: those used last
  /// @throws argument_error unless that is at least one
  explicit schedule_cache(std::size_t capacity) : capacity_{capacity} {
    detail::require(capacity > 0, "schedule_cache: a capacity of 0; expected 1 or more");
  }

  /// The schedule, which lives as long as somebody has it.
  /// @post equal to schedule(plan, chunk_bytes, options)
  /// @cost a comparison of plans where hashes are equal; what schedule costs if it is new. Threads
  ///       that ask for the same new one at once may each make it
  /// @throws argument_error as schedule
  [[nodiscard]] std::shared_ptr<transfer_plan const> operator()(
      transfer_plan const& plan, std::size_t chunk_bytes, schedule_options const& options = {}) {
    if (auto known = find(plan, chunk_bytes, options)) return known;
    auto made = std::make_shared<transfer_plan const>(schedule(plan, chunk_bytes, options));
    auto const lock = std::scoped_lock{mutex_};
    entries_.push_front({plan, chunk_bytes, options, made});
    if (entries_.size() > capacity_) entries_.pop_back();
    return made;
  }
  [[nodiscard]] std::size_t size() const {
    auto const lock = std::scoped_lock{mutex_};
    return entries_.size();
  }

 private:
  struct entry {
    transfer_plan plan;
    std::size_t chunk_bytes;
    schedule_options options;
    std::shared_ptr<transfer_plan const> made;
  };

  [[nodiscard]] std::shared_ptr<transfer_plan const> find(transfer_plan const& plan,
                                                          std::size_t chunk_bytes,
                                                          schedule_options const& options) {
    auto const lock = std::scoped_lock{mutex_};
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      auto const equal = at->plan.hash_value() == plan.hash_value() &&
                         at->chunk_bytes == chunk_bytes && at->options == options &&
                         at->plan.topology() == plan.topology() && at->plan == plan;
      if (!equal) continue;
      entries_.splice(entries_.begin(), entries_, at);
      return entries_.front().made;
    }
    return nullptr;
  }

  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<entry> entries_;  // the one used last comes first
};

}  // namespace fssdp
