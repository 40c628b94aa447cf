// SPDX-License-Identifier: Apache-2.0
/// One element in another type: the same on hosts and devices.
#pragma once

#include <type_traits>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// The element of the other type that is nearest, rounded once, as that type rounds.
template <element To, element From>
[[nodiscard]] FSSDP_HOST_DEVICE constexpr To converted(From value) {
  if constexpr (std::is_floating_point_v<From> || std::is_floating_point_v<To>)
    return static_cast<To>(value);
  else
    return static_cast<To>(static_cast<float>(value));  // which has room for all of these
}

}  // namespace fssdp::detail
