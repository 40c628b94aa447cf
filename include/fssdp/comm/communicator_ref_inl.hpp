// SPDX-License-Identifier: Apache-2.0
/// Implementations by `exchange` alone.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp {

static_assert(communicator<communicator_ref>);

FSSDP_INLINE void communicator_ref::exchange_values(std::span<std::byte const> mine,
                                                    std::span<std::byte> all) const {
  exchange(
      [&](detail::batch_ref const& batch) { detail::name_values(batch, rank_, size_, mine, all); });
  if (!mine.empty())
    std::memcpy(all.data() + rank_.index() * mine.size(), mine.data(), mine.size());
}

}  // namespace fssdp
