// SPDX-License-Identifier: Apache-2.0
/// The figures of one measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "options.hpp"

namespace perf {

struct result {
  perf::backend backend = perf::backend::thread;
  perf::collective collective = perf::collective::ag;
  case_kind of_case = case_kind::pairs;
  std::uint64_t seed = 0;
  int ranks = 0;
  int nodes = 0;
  std::size_t bytes = 0;  ///< of one expert, or of a block in the mean
  int chunks = 0;
  int replicas = 0;  ///< all together
  fssdp::dtype dtype = fssdp::dtype::fp32;
  double seconds = 0;
  double bound_seconds = 0;
  double tight_bound_seconds = 0;
  std::optional<double> simulated_seconds = {};  ///< of throttled ranks
  std::string bound = {};
  std::uint64_t wire = 0;          ///< bytes that all ranks send
  std::uint64_t busiest_port = 0;  ///< bytes that one rank at most sends or receives
  double plan_seconds = 0;
  std::optional<std::size_t> wrong = {};  ///< elements, if they were compared
  perf::baseline baseline = perf::baseline::none;
  std::optional<double> baseline_seconds = {};
  double baseline_setup_seconds = 0;  ///< before its first call, for communicators
  std::size_t baseline_wrong = 0;
};

/// What is done to the elements.
[[nodiscard]] constexpr char const* op(result const& of) {
  return of.collective == collective::ag ? "none" : "sum";
}
/// GB/s
[[nodiscard]] inline double algbw(result const& of) {
  if (of.seconds <= 0) return 0;
  return static_cast<double>(of.replicas) * static_cast<double>(of.bytes) / of.seconds * 1e-9;
}
[[nodiscard]] inline double busbw(result const& of) {
  return of.seconds <= 0 ? 0 : static_cast<double>(of.busiest_port) / of.seconds * 1e-9;
}
/// Percent of the bound; 100 where nothing is to be moved.
[[nodiscard]] inline double efficiency(result const& of) {
  if (of.replicas == 0 || of.seconds <= 0) return 100;
  return 100 * of.bound_seconds / of.seconds;
}
/// How many times as long the baseline takes.
[[nodiscard]] inline std::optional<double> speedup(result const& of) {
  if (!of.baseline_seconds.has_value() || of.seconds <= 0) return {};
  return *of.baseline_seconds / of.seconds;
}
/// Whether the check, if there was one, finds nothing.
[[nodiscard]] inline bool passes(result const& of) {
  if (!of.wrong.has_value()) return true;
  return *of.wrong == 0 && of.baseline_wrong == 0 && efficiency(of) <= 100;
}

}  // namespace perf
