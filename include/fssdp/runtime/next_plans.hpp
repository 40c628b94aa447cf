// SPDX-License-Identifier: Apache-2.0
/// Placements and plans of the next iteration, made during this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/warm_up.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/plan_bytes.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/runtime/calibration.hpp"
#include "fssdp/runtime/iteration_meter.hpp"
#include "fssdp/runtime/materialized_layer.hpp"
#include "fssdp/runtime/materializer_options.hpp"
#include "fssdp/runtime/materializer_policy.hpp"
#include "fssdp/runtime/plan_sharing.hpp"
#include "fssdp/runtime/planning_thread.hpp"
#include "fssdp/runtime/work_queue.hpp"
#include "fssdp/solver/fit_slots.hpp"

namespace fssdp::detail {

/// Plans layers before they are placed: on a thread of its own; on all ranks together; or, on
/// communicators whose ranks have to compare plans, in the calls of the materializer.
class next_plans {
 public:
  /// The settings of the materializer.
  struct rules {
    work_queue const& queue;
    layer_setting const& setting;
    materializer_policy const& policy;
    materializer_options const& options;
  };

  /// @pre all arguments outlive it
  next_plans(rules const& by, iteration_meter& meter, std::deque<materialized_layer>& layers)
      : by_{by}, meter_{meter}, layers_{layers} {
    if (by_.options.plan_ahead) thread_.emplace(meter_);
    if (by_.options.share_plans.has_value())
      sharing_.emplace(*by_.options.share_plans, by_.setting.topology);
  }

  /// To be called when a layer is reduced: plans layers for the next iteration, by the loads
  /// recorded so far. A layer is planned once per iteration, and again if more loads were recorded.
  /// @param room the slots that the pool will have
  void plan_behind(materialized_layer& reduced, int iteration, std::size_t room) {
    if (!thread_.has_value() && !by_.queue.announces()) return;
    auto jobs = std::vector<planning_job>{};
    for (auto& layer : layers_) {  // in the order in which they are needed
      if (&layer != &reduced && (!thread_.has_value() || layer.recorded.empty())) continue;
      auto const state = planning_state{iteration, layer.records};
      if (std::exchange(layer.planned_by, state) == state) continue;
      finish(layer);
      jobs.push_back({&layer, loads_so_far(layer)});
    }
    if (jobs.empty()) return;
    meter_.expose([&] {
      if (!thread_.has_value()) {
        for (auto const& job : jobs) (void)plan(job, room);
      } else if (sharing_.has_value()) {
        thread_->submit(jobs, [this, room](auto const& list) { plan_for_all(list, room); });
      } else {
        for (auto& job : jobs)
          thread_->submit({std::move(job)},
                          [this, room](auto const& list) { (void)plan(list.front(), room); });
      }
    });
  }
  /// Waits until a layer has been planned.
  /// @throws what solver or planner have thrown
  void finish(materialized_layer& layer) {
    if (thread_.has_value()) thread_->finish(layer);
  }
  void finish_all() {
    for (auto& layer : layers_) finish(layer);
  }

  /// Where ranks have to compare plans: plans all layers of the next iteration, and begins to
  /// compare them asynchronously. Once, until forget_announced.
  void announce(std::size_t room) {
    if (!by_.queue.announces() || are_announced_) return;
    finish_all();
    meter_.expose([&] {
      auto hashes = std::vector<std::uint64_t>{};
      for (auto& layer : layers_) {
        if (!plan({&layer, layer.expected.predict()}, room)) continue;
        if (by_.options.replicas == retention::keep)
          room -= most_slots_used(layer.next->where, layer.layout(), by_.setting.use());
        for (auto const hash : hashes_of(layer.next_plan())) hashes.push_back(hash);
      }
      by_.queue.announce(hashes);
    });
    are_announced_ = true;
  }
  /// To be called when an iteration begins, or owners have changed.
  void forget_announced() { are_announced_ = false; }

  /// As announce, for what calibration adds: its gather, and the plan of the layer from then on.
  void announce_calibrated(materialized_layer& layer, calibration const& found) {
    if (!by_.queue.announces()) return;
    meter_.expose([&] {
      layer.plan_next(found.where);
      auto hashes = std::vector{found.plan.hash_value()};
      for (auto const hash : hashes_of(layer.next_plan())) hashes.push_back(hash);
      by_.queue.announce(hashes);
    });
  }

 private:
  [[nodiscard]] static expert_loads loads_so_far(materialized_layer const& layer) {
    auto with_these = layer.expected;
    if (!layer.recorded.empty()) with_these.push(layer.recorded);
    return with_these.predict();
  }

  [[nodiscard]] bool has_room_for_owners(materialized_layer const& layer, std::size_t room) const {
    return most_slots_used(placement{layer.layout()}, layer.layout(), by_.setting.use()) <= room;
  }
  /// Makes the placement and the plan that a layer will have in the next iteration, if these are
  /// the loads and this is the room.
  /// @param made the plan, if another rank has made it
  /// @return false if there is too little room
  bool plan(planning_job const& job, std::size_t room, std::optional<transfer_plan> made = {}) {
    auto& layer = *job.layer;
    auto const& layout = layer.layout();
    auto const use = by_.setting.use();
    if (!has_room_for_owners(layer, room)) return false;
    auto const& wanted = layer.wanted(job.loads, by_.policy.placement, by_.options.load_tolerance);
    layer.plan_next(most_slots_used(wanted, layout, use) <= room
                        ? wanted
                        : fit_slots(wanted, layout, job.loads, static_cast<int>(room), use),
                    std::move(made));
    return true;
  }

  /// Plans layers together with all other ranks. Each asks solver and planner for its share of the
  /// layers that need them, and receives the results of the others as bytes.
  void plan_for_all(std::vector<planning_job> const& jobs, std::size_t room) {
    auto unsolved = std::vector<planning_job const*>{};
    auto what = hasher{};
    for (auto const& job : jobs) {
      if (job.layer->is_solved(job.loads, by_.options.load_tolerance) ||
          !has_room_for_owners(*job.layer, room))
        continue;
      unsolved.push_back(&job);
      what.mix(job.layer->id.value());
      for (auto const load : job.loads) what.mix(load);
    }
    if (!unsolved.empty()) {
      auto mine = word_writer{};
      auto failure = std::exception_ptr{};
      try {
        for (std::size_t n = 0; n < unsolved.size(); ++n)
          if (sharing_->is_mine(n, unsolved.size(), what.value()))
            write_plan(*unsolved[n], n, room, mine);
      } catch (...) {
        failure = std::current_exception();
      }
      auto const range = trace_range{&by_.setting.trace, gather_track, "share plans", {}};
      for (auto const& theirs : sharing_->exchange(what.value(), mine.bytes(), failure))
        for (auto in = word_reader{theirs}; !in.is_at_end();) read_plan(in, unsolved, room);
    }
    for (auto const& job : jobs) (void)plan(job, room);  // also layers already solved
  }
  void write_plan(planning_job const& job, std::size_t n, std::size_t room, word_writer& out) {
    (void)plan(job, room);
    auto& layer = *job.layer;
    out.put(static_cast<std::uint32_t>(n));
    out.put(layer.solved->where, layer.layout());
    auto const bytes = layer.next.has_value() && layer.next->plan.has_value()
                           ? plan_to_bytes(*layer.next->plan)
                           : std::vector<std::byte>{};  // all ranks have it already
    out.put_long(bytes.size());
    out.put(bytes);
  }
  void read_plan(word_reader& in, std::span<planning_job const* const> unsolved, std::size_t room) {
    auto const n = std::size_t{in.word()};
    require(n < unsolved.size(), "materializer: another rank sent plan ", n, "; expected 0 to ",
            unsolved.size() - 1);
    auto const& job = *unsolved[n];
    auto& layer = *job.layer;
    layer.take_solved(job.loads, in.replicas(layer.layout()));
    auto const bytes = in.bytes(static_cast<std::size_t>(in.long_word()));
    (void)plan(job, room,
               bytes.empty() ? std::optional<transfer_plan>{}
                             : plan_from_bytes(bytes, layer.layout(), by_.setting.topology));
  }

  rules by_;
  iteration_meter& meter_;
  std::deque<materialized_layer>& layers_;
  bool are_announced_ = false;  // the plans of this iteration
  std::optional<plan_sharing> sharing_;
  std::optional<planning_thread> thread_;  // last, as its work uses all other members
};

}  // namespace fssdp::detail
