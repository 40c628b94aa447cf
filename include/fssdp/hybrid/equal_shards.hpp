// SPDX-License-Identifier: Apache-2.0
/// Detects that the parameters of groups differ.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// A hash of all elements, bit by bit.
/// @param tensors [slots, elements] each
template <tensor_memory Tensors>
[[nodiscard]] std::uint64_t hash_of_bits(Tensors const& tensors) {
  auto hash = detail::hasher{};
  for (auto const& tensor : tensors_of(tensors))
    for (std::size_t slot = 0; slot < tensor.slots; ++slot)
      for (auto const value : tensor[slot]) hash.mix(std::bit_cast<std::uint32_t>(value));
  return hash.value();
}

/// Throws on all counterparts unless they have the same bits; for floats in host memory. Equal
/// parameters stay equal by construction; this detects hosts that compute different results.
/// @param between the counterparts of this rank: ranks are groups
/// @pre all of them call it
/// @cost an exchange of 8 bytes with each of them; reads all elements
/// @throws ranks_disagree that names a group; transport errors
template <communicator Comm, tensor_memory Tensors>
void require_equal_bits(Comm& between, Tensors const& tensors) {
  auto const mine = std::array{hash_of_bits(tensors)};
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(between.size()));
  all_gather(between, mine, all);
  for (auto const group : first_n<rank_id>(between.size()))
    if (all[group.index()] != all.front())
      throw ranks_disagree{group, detail::text("require_equal_bits: group ", group, " has ",
                                               all[group.index()], ", group 0 ", all.front(),
                                               "; expected equal bits of what counterparts own")};
}

}  // namespace fssdp
