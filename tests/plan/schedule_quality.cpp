// SPDX-License-Identifier: Apache-2.0
/// How near schedules are to lower bounds, on ideal ports: no time is measured.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "catch.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "support/perf_cases.hpp"

using fssdp::network_interface;
using support::replicated;

namespace {

/// Simulated time over a bound: the geometric mean of all cases, and the worst.
struct over_bound {
  double plain = 0;
  double tight = 0;
  double worst_tight = 0;
};

[[nodiscard]] over_bound judge(std::size_t chunk_bytes) {
  auto log_plain = 0.0;
  auto log_tight = 0.0;
  auto result = over_bound{};
  auto cases = 0;
  for (auto const network : {network_interface::per_rank, network_interface::per_node})
    for (auto const nodes : {1, 2, 4, 8}) {
      auto const topo = fssdp::topology{{.nodes = nodes, .ranks = 8 * nodes, .network = network}};
      for (auto const how : {replicated::pairs, replicated::random, replicated::zipf,
                             replicated::hot, replicated::hot_node}) {
        auto const plan = support::perf_case(how, topo, 1);
        auto const seconds = simulate(schedule(plan, chunk_bytes), chunk_bytes).seconds;
        auto const bound = lower_bound(plan, chunk_bytes);
        log_plain += std::log(seconds / bound.seconds);
        log_tight += std::log(seconds / bound.tight_seconds);
        result.worst_tight = std::max(result.worst_tight, seconds / bound.tight_seconds);
        ++cases;
      }
    }
  result.plain = std::exp(log_plain / cases);
  result.tight = std::exp(log_tight / cases);
  return result;
}

}  // namespace

TEST_CASE("schedules of 48 MB chunks are within a tenth of the plain bound, most much nearer") {
  auto const found = judge(48'000'000);
  CAPTURE(found.plain, found.tight, found.worst_tight);
  CHECK(found.plain <= 1.10);
  CHECK(found.tight <= 1.06);
  CHECK(found.worst_tight <= 1.30);
}

TEST_CASE("schedules of 16 MB chunks are within a tenth of the tight bound") {
  auto const found = judge(16'000'000);
  CAPTURE(found.plain, found.tight, found.worst_tight);
  CHECK(found.tight <= 1.10);
  CHECK(found.worst_tight <= 1.45);
}

TEST_CASE("schedules of 4 MB chunks are within a fifth of the tight bound") {
  auto const found = judge(4'000'000);
  CAPTURE(found.plain, found.tight, found.worst_tight);
  CHECK(found.tight <= 1.20);
}
