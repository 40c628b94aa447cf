// SPDX-License-Identifier: Apache-2.0
/// What ranks that are processes on devices leave, beside what threads leave.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "support/collective_bits.hpp"
#include "support/device_bits.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_instance.hpp"
#include "support/scheduled_plan.hpp"

namespace gpu_tests {

/// Gathers and reductions by so many random plans leave the bits that they leave on threads. Every
/// other plan is scheduled, in pieces; all ranks draw the same.
/// @param over what they run over, for errors
/// @param begin begin(plan) is called before a plan runs
/// @throws std::runtime_error if they leave others
template <class Comm, class Begin>
void compare_with_threads(Comm& comm, int plans, std::string const& over, Begin begin) {
  auto const limits = support::size_limits{.ranks = comm.size(), .nodes = 3, .experts = 16};
  auto count = 0;
  for (auto seed = std::uint64_t{1}; count < plans; ++seed) {
    auto const of = count % 2 == 0 ? support::random_instance{seed, limits}
                                   : support::relayed_instance(seed, limits);
    if (of.plan.ranks() != comm.size()) continue;
    auto const here = support::on_all_ranks(comm.size(), [&](fssdp::thread_communicator& threads) {
      return support::collective_bits(threads, of);
    });
    begin(of.plan);
    if (support::device_bits(comm, of) != here[comm.rank().index()])
      throw std::runtime_error{over + ", seed " + std::to_string(seed) +
                               ": other bits than on threads"};
    ++count;
  }
}

}  // namespace gpu_tests
