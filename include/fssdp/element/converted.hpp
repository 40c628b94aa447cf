// SPDX-License-Identifier: Apache-2.0
/// Converts one element, in the same way on hosts and devices.
#pragma once

#include <type_traits>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// The nearest element of the other type, rounded once by the rule of that type.
template <element To, element From>
[[nodiscard]] FSSDP_HOST_DEVICE constexpr To converted(From value) {
  if constexpr (std::is_floating_point_v<From> || std::is_floating_point_v<To>)
    return static_cast<To>(value);
  else
    return static_cast<To>(static_cast<float>(value));  // exact: float represents all of these
}

}  // namespace fssdp::detail
