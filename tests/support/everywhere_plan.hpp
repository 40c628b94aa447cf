// SPDX-License-Identifier: Apache-2.0
/// A plan in which all ranks meet.
#pragma once

#include <array>
#include <cstddef>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"

namespace support {

/// Every rank owns one expert, of two tensors of different sizes, and all hold it.
struct everywhere_plan {
  static constexpr auto elements = std::array{std::size_t{7}, std::size_t{11}};

  int ranks;
  fssdp::block_layout layout{{.experts = ranks, .ranks = ranks}};
  fssdp::transfer_plan plan = make_plan(layout, fssdp::everywhere{}(layout));
};

}  // namespace support
