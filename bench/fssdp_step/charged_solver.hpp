// SPDX-License-Identifier: Apache-2.0
/// The solver of a policy, as the materializer of a rank calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "device.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "job.hpp"
#include "planning_times.hpp"

namespace step {

namespace detail {

/// What the solver of the policy says, asked as fssdp_sim asks.
[[nodiscard]] inline fssdp::placement solve(job const& of, std::span<std::uint64_t const> loads,
                                            fssdp::table_layout const& owners,
                                            fssdp::placement const* before) {
  auto const predicted = fssdp::expert_loads(loads.begin(), loads.end());
  auto const counts = sim::split_loads(loads, owners.ranks());
  return of.which.places({.topology = &of.of.where->topology,
                          .rates = of.of.where->rates,
                          .owners = &owners,
                          .predicted = &predicted,
                          .counts = &counts,
                          .slots = of.of.slots,
                          .overlap = of.of.overlap},
                         before);
}

}  // namespace detail

/// A placement solver that runs once for all devices; with an emulated device each call takes
/// as long as that did.
class charged_solver {
 public:
  charged_solver(job const& of, shared_work& shared, device const& on, planning_times& times)
      : of_{&of}, shared_{&shared}, device_{&on}, times_{&times} {}

  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            fssdp::table_layout const& owners) const {
    return ask(loads, owners, nullptr);
  }
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            fssdp::table_layout const& owners,
                                            fssdp::placement const& before) const {
    return ask(loads, owners, &before);
  }

 private:
  [[nodiscard]] fssdp::placement ask(std::span<std::uint64_t const> loads,
                                     fssdp::table_layout const& owners,
                                     fssdp::placement const* before) const {
    auto const begin = device::clock::now();
    auto const known = before != nullptr ? std::optional{*before} : std::nullopt;
    auto answer =
        shared_->placements({fssdp::expert_loads(loads.begin(), loads.end()), owners, known},
                            [&] { return detail::solve(*of_, loads, owners, before); });
    device_->busy(answer.seconds, begin);
    times_->add(answer.seconds);
    return std::move(answer.value);
  }

  job const* of_;
  shared_work* shared_;
  device const* device_;
  planning_times* times_;
};

}  // namespace step
