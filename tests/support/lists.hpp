// SPDX-License-Identifier: Apache-2.0
/// Ranges of the library as plain lists of numbers, which a failed test can print.
#pragma once

#include <vector>

#include "fssdp/placement/placement.hpp"

namespace support {

/// The values of a range of strong indices.
template <class Range>
[[nodiscard]] std::vector<int> values(Range const& range) {
  auto list = std::vector<int>{};
  for (auto const index : range) list.push_back(index.value());
  return list;
}

/// Per expert the ranks that hold it.
[[nodiscard]] inline std::vector<std::vector<int>> holders(fssdp::placement const& where) {
  auto lists = std::vector<std::vector<int>>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts()))
    lists.push_back(values(where.holders(expert)));
  return lists;
}

}  // namespace support
