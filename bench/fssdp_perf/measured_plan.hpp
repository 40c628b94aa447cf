// SPDX-License-Identifier: Apache-2.0
/// The plan that is measured.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/uneven_plan.hpp"

namespace perf {

/// A plan of the sparse collectives, or one of all_gather_v and reduce_scatter_v.
struct measured_plan {
  fssdp::transfer_plan plan;
  std::size_t chunk_bytes;                          ///< of the largest expert of `plan`
  std::optional<fssdp::uneven_plan> of_array = {};  ///< whose plan it is

  /// @param chunk_bytes of the largest expert
  measured_plan(fssdp::transfer_plan experts, std::size_t chunk_bytes)
      : plan{std::move(experts)}, chunk_bytes{chunk_bytes} {}
  explicit measured_plan(fssdp::uneven_plan blocks)
      : plan{blocks.plan()}, chunk_bytes{blocks.part_bytes()}, of_array{std::move(blocks)} {}
};

}  // namespace perf
