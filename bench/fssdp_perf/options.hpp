// SPDX-License-Identifier: Apache-2.0
/// What a run measures.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "names.hpp"

namespace perf {

struct options {
  perf::backend backend = perf::backend::thread;
  int ranks = 4;
  int nodes = 1;
  std::vector<collective> collectives = {collective::ag};
  std::vector<case_kind> cases = {case_kind::pairs};
  int experts = 0;  ///< 0: two for each rank; of arrays one
  std::vector<std::size_t> bytes = {std::size_t{1} << 20U};  ///< per expert
  fssdp::dtype dtype = fssdp::dtype::fp32;
  int iterations = 20;
  int warmup = 5;
  std::uint64_t seed = 1;
  perf::baseline baseline = perf::baseline::none;
  perf::memory memory = perf::memory::hot;
  std::size_t piece_bytes = 0;  ///< of a scheduled expert, about; 0: as piece_bytes() chooses
  bool in_place = true;         ///< ranks that are processes read each other's memory
  bool check = false;
  bool json = false;

  // The topology of the simulation, or of emulated links.
  bool simulate = false;
  double rate = 0;                ///< bytes per second that a throttled rank moves; 0: what it can
  double link_bandwidth = 400e9;  ///< bytes per second of a rank inside its node
  double nic_bandwidth = 50e9;    ///< bytes per second between nodes
  perf::nic_per nic_per = perf::nic_per::rank;
  double link_latency = 5e-6;  ///< seconds
  double nic_latency = 15e-6;  ///< seconds
};

[[nodiscard]] inline std::size_t size_of(fssdp::dtype which) { return fssdp::bytes_of(which); }
/// An array has a block for each rank.
[[nodiscard]] inline int expert_count(options const& of) {
  if (of.experts != 0) return of.experts;
  return std::ranges::all_of(of.cases, is_of_blocks) ? of.ranks : 2 * of.ranks;
}

/// Whether ranks are processes, or a baseline runs in processes, one for each rank.
[[nodiscard]] constexpr bool needs_processes(options const& of) {
  return !of.simulate && (of.backend == backend::mpi || needs_mpi(of.baseline));
}

/// Whether ranks are devices of this process, or share them.
[[nodiscard]] constexpr bool between_devices(options const& of) {
  return of.backend == backend::nccl || of.backend == backend::cuda;
}

namespace detail {

/// What makes no sense between devices.
/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate_between_devices(options const& of) {
  auto const expect = [&](bool holds, std::string const& what, char const* expected) {
    if (!holds)
      throw std::invalid_argument{what + ": expected " + expected + " with --backend " +
                                  std::string{name_of(of.backend)}};
  };
  expect(of.nodes == 1, "--nodes " + std::to_string(of.nodes),
         "1, as one process has all the devices,");
  expect(of.memory == memory::hot, "--buffers " + std::string{name_of(of.memory)},
         "hot, as the caches that are emptied are those of the host,");
  constexpr auto possible =
      std::array{baseline::none, baseline::direct, baseline::broadcast, baseline::dense};
  expect(std::ranges::count(possible, of.baseline) == 1,
         "--baseline " + std::string{name_of(of.baseline)}, "none, direct, broadcast or dense");
}

inline constexpr auto summed_by_mpi_and_gloo = std::array{fssdp::dtype::fp32, fssdp::dtype::fp64};
inline constexpr auto summed_by_nccl =  // on every device
    std::array{fssdp::dtype::fp32, fssdp::dtype::fp64, fssdp::dtype::bf16, fssdp::dtype::fp16};

/// The element types that the library behind a baseline can sum; all, if it has to sum none.
[[nodiscard]] inline std::span<fssdp::dtype const> summed_by_library(options const& of) {
  if (of.baseline == baseline::mpi_broadcast || of.baseline == baseline::gloo_broadcast ||
      of.baseline == baseline::mpi_v || of.baseline == baseline::gloo_v ||
      (of.backend == backend::mpi && of.baseline == baseline::broadcast))
    return summed_by_mpi_and_gloo;
  if (of.backend == backend::nccl && of.baseline == baseline::broadcast) return summed_by_nccl;
  return fssdp::all_dtypes;
}

/// @throws std::invalid_argument that names the type, the baseline and what it can sum
inline void validate_sums(options const& of) {
  auto const kinds = summed_by_library(of);
  if (std::ranges::count(of.collectives, collective::rs) == 0 ||
      std::ranges::count(kinds, of.dtype) > 0)
    return;
  auto list = std::string{name_of(kinds.front())};
  for (auto const kind : kinds.subspan(1))
    list.append(kind == kinds.back() ? " or " : ", ").append(name_of(kind));
  throw std::invalid_argument{"--dtype " + std::string{name_of(of.dtype)} + ": expected " + list +
                              ", which the library behind --baseline " +
                              std::string{name_of(of.baseline)} + " can sum"};
}

/// What makes no sense for the blocks of an array, or for experts.
/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate_blocks(options const& of) {
  auto const counts = of.baseline == baseline::mpi_v || of.baseline == baseline::gloo_v;
  auto const text = "--baseline " + std::string{name_of(of.baseline)} + ": expected ";
  for (auto const which : of.cases) {
    auto const with = " with --case " + std::string{name_of(which)};
    if (!is_of_blocks(which)) {
      if (counts) throw std::invalid_argument{text + "one for experts" + with};
      continue;
    }
    if (of.experts != 0)
      throw std::invalid_argument{"--experts " + std::to_string(of.experts) + ": expected 0" +
                                  with + ", which has a block for each rank"};
    constexpr auto of_experts = std::array{baseline::dense, baseline::neighbor, baseline::gloo};
    if (std::ranges::count(of_experts, of.baseline) > 0)
      throw std::invalid_argument{text + "one for blocks" + with + ", such as mpi-v or broadcast"};
  }
  for (auto const bytes : of.bytes)
    if (counts && bytes > INT32_MAX / static_cast<std::size_t>(of.ranks))
      throw std::invalid_argument{"--bytes " + std::to_string(bytes) +
                                  ": expected less than 2 GiB " + "in all with --baseline " +
                                  std::string{name_of(of.baseline)} +
                                  ", whose library counts with int"};
}

}  // namespace detail

/// @throws std::invalid_argument that names the option, its value and what was expected
inline void validate(options const& of) {
  auto const require = [](bool holds, std::string const& what) {
    if (!holds) throw std::invalid_argument{what};
  };
  auto const at_least = [&](char const* name, int value, int least) {
    require(value >= least, std::string{name} + " " + std::to_string(value) + ": expected " +
                                std::to_string(least) + " or more");
  };
  auto const positive = [&](char const* name, double value) {
    require(value > 0 && value <= std::numeric_limits<double>::max(),
            std::string{name} + " " + std::to_string(value) + ": expected more than 0");
  };
  auto const at_most = [&](char const* name, int value, int most) {
    require(value <= most, std::string{name} + " " + std::to_string(value) + ": expected at most " +
                               std::to_string(most));
  };
  at_least("--ranks", of.ranks, 1);
  at_most("--ranks", of.ranks, 4096);
  at_least("--nodes", of.nodes, 1);
  require(of.nodes <= of.ranks, "--nodes " + std::to_string(of.nodes) +
                                    ": expected at most --ranks, " + std::to_string(of.ranks) +
                                    ", because every node has a rank");
  at_least("--experts", of.experts, 0);
  at_most("--experts", of.experts, 1 << 20);
  at_least("--iters", of.iterations, 1);
  at_most("--iters", of.iterations, 10'000'000);
  at_least("--warmup", of.warmup, 0);
  require(of.piece_bytes == 0 || std::ranges::none_of(of.cases, is_of_blocks),
          "--piece-bytes " + std::to_string(of.piece_bytes) +
              ": expected 0 for arrays of blocks, whose parts have the same length in all plans");
  for (auto const bytes : of.bytes)
    require(bytes > 0 && bytes % size_of(of.dtype) == 0,
            "--bytes " + std::to_string(bytes) + ": expected a multiple of " +
                std::to_string(size_of(of.dtype)) + ", the size of --dtype " +
                std::string{name_of(of.dtype)});
  constexpr auto most_bytes = std::size_t{1} << 40U;
  for (auto const bytes : of.bytes)
    require(of.simulate || bytes <= most_bytes / static_cast<std::size_t>(expert_count(of)),
            "--bytes " + std::to_string(bytes) + " for each of " +
                std::to_string(expert_count(of)) + " experts: expected at most " +
                std::to_string(most_bytes) + " bytes in all; --simulate needs no memory for them");
  detail::validate_sums(of);
  detail::validate_blocks(of);
  positive("--link-bandwidth", of.link_bandwidth);
  positive("--nic-bandwidth", of.nic_bandwidth);
  require(of.rate >= 0, "--rate " + std::to_string(of.rate) + ": expected more than 0");
  require(of.link_latency >= 0 && of.nic_latency >= 0, "--latency: expected 0 or more");
  require(of.backend == backend::thread || !of.simulate, "--simulate: expected no --backend " +
                                                             std::string{name_of(of.backend)} +
                                                             "; the port model knows none");
  require(of.backend == backend::thread || of.rate == 0,
          "--rate " + std::to_string(of.rate) + ": expected 0 with --backend " +
              std::string{name_of(of.backend)} + "; threads alone can be slowed down");
  if (between_devices(of)) detail::validate_between_devices(of);
}

}  // namespace perf
