// SPDX-License-Identifier: Apache-2.0
/// What can be chosen, and how each choice is called on the command line.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cases/case_kind.hpp"
#include "fssdp/element/dtype.hpp"

namespace perf {

enum class backend { thread, mpi, nccl, cuda };
enum class collective { ag, rs };
/// Placements of experts, as in cases/; then blocks of an array, of which every rank owns one and
/// gets all.
enum class case_kind { pairs, hot, zipf, hot_node, random, blocks, zipf_blocks };
enum class baseline {
  none,
  direct,
  broadcast,
  dense,
  chain,
  star,
  neighbor,
  mpi_broadcast,
  gloo,
  gloo_broadcast,
  mpi_v,
  gloo_v
};
enum class memory { hot, cold };
enum class nic_per { node, rank };

/// The names of a choice in the order of its enumerators.
template <class Choice>
inline constexpr auto names = nullptr;
template <>
inline constexpr auto names<backend> =
    std::array<std::string_view, 4>{"thread", "mpi", "nccl", "cuda"};
template <>
inline constexpr auto names<collective> = std::array<std::string_view, 2>{"ag", "rs"};
template <>
inline constexpr auto names<case_kind> = std::array<std::string_view, 7>{
    "pairs", "hot", "zipf", "hot-node", "random", "blocks", "zipf-blocks"};
static_assert(std::ranges::equal(cases::case_names,
                                 std::span{names<case_kind>}.first(cases::case_names.size())));
template <>
inline constexpr auto names<fssdp::dtype> =
    std::array<std::string_view, 6>{"fp32", "fp64", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"};
static_assert(names<fssdp::dtype>.size() == fssdp::all_dtypes.size());
template <>
inline constexpr auto names<baseline> = std::array<std::string_view, 12>{
    "none",     "direct",        "broadcast", "dense",          "chain", "star",
    "neighbor", "mpi-broadcast", "gloo",      "gloo-broadcast", "mpi-v", "gloo-v"};
template <>
inline constexpr auto names<memory> = std::array<std::string_view, 2>{"hot", "cold"};
template <>
inline constexpr auto names<nic_per> = std::array<std::string_view, 2>{"node", "rank"};

template <class Choice>
[[nodiscard]] constexpr std::string_view name_of(Choice which) {
  return names<Choice>[static_cast<std::size_t>(which)];
}

/// The choice of a name, if there is one.
template <class Choice>
[[nodiscard]] constexpr std::optional<Choice> named(std::string_view name) {
  auto const at = std::find(names<Choice>.begin(), names<Choice>.end(), name);
  if (at == names<Choice>.end()) return {};
  return static_cast<Choice>(at - names<Choice>.begin());
}

/// All names of a choice: "ag, rs".
template <class Choice>
[[nodiscard]] std::string list_of_names() {
  auto list = std::string{};
  for (auto const name : names<Choice>) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

/// Whether all_gather_v and reduce_scatter_v are measured, not the sparse collectives.
[[nodiscard]] constexpr bool is_of_blocks(case_kind which) {
  return which == case_kind::blocks || which == case_kind::zipf_blocks;
}

[[nodiscard]] constexpr bool needs_gloo(baseline which) {
  return which == baseline::gloo || which == baseline::gloo_broadcast || which == baseline::gloo_v;
}
/// Whether a baseline is one of MPI.
[[nodiscard]] constexpr bool needs_mpi(baseline which) {
  return which == baseline::neighbor || which == baseline::mpi_broadcast ||
         which == baseline::mpi_v;
}

}  // namespace perf
