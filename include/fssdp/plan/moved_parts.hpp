// SPDX-License-Identifier: Apache-2.0
/// Parts of tensors that move between the slots of two distributions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Elements of one tensor of a slot.
struct slot_part {
  std::size_t slot = 0;
  std::size_t first = 0;
};
/// What a rank that has it already copies into its own target.
struct local_part {
  slot_part from;
  slot_part to;
  std::size_t elements = 0;
};
/// A part on its way from one rank to some that lack it.
struct sent_part {
  rank_id source;
  slot_part from;
  std::size_t elements = 0;
  std::vector<std::pair<rank_id, slot_part>> targets;
};

/// Cuts parts to about equal length, so that they can be scheduled alike.
[[nodiscard]] inline std::vector<sent_part> cut_to_length(std::vector<sent_part> const& parts,
                                                          std::size_t length) {
  auto cut = std::vector<sent_part>{};
  for (auto const& whole : parts)
    for (std::size_t at = 0; at < whole.elements; at += length) {
      auto& part = cut.emplace_back(whole);
      part.elements = std::min(length, whole.elements - at);
      part.from.first += at;
      for (auto& [rank, place] : part.targets) place.first += at;
    }
  return cut;
}

}  // namespace fssdp::detail
