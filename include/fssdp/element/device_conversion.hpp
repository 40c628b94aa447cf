// SPDX-License-Identifier: Apache-2.0
/// A conversion of elements that is made where they are: on a device, in the order of a stream.
#pragma once

#include <cstddef>
#include <type_traits>

#include "fssdp/element/converted.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"

namespace fssdp {

/// to[i] = from[i], rounded once: what `convert` does.
struct device_conversion {
  dtype from_type = dtype::fp32;
  dtype to_type = dtype::fp32;
  std::size_t elements = 0;
  void const* from = nullptr;
  void* to = nullptr;
};

namespace detail {

/// One step of a device_conversion.
template <element From, element To>
struct conversion_kernel {
  static constexpr auto lanes = lanes_of<From, To>;
  /// By a thread in one step: values, and results.
  static constexpr auto held_bytes = lanes * (sizeof(From) + sizeof(To));

  device_conversion of;
  bool wide = false;

  explicit conversion_kernel(device_conversion const& conversion)
      : of{conversion}, wide{is_wide(conversion.from) && is_wide(conversion.to)} {}
  /// How many steps there are.
  [[nodiscard]] std::size_t steps() const { return (of.elements + lanes - 1) / lanes; }

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const first = step * lanes;
    auto const* const from = static_cast<From const*>(of.from);
    auto* const to = static_cast<To*>(of.to);
    if (wide && of.elements - first >= lanes) {
      auto values = element_lanes<From, lanes>{};
      values.load(from + first);
      converted_lanes<To>(values).store(to + first);
    } else {
      for (auto i = first; i < of.elements && i < first + lanes; ++i)
        to[i] = converted<To>(from[i]);
    }
  }
};

/// Calls launch(kernel) with the kernel for the types of a conversion.
template <class Launch>
void with_kernel(device_conversion const& of, Launch launch) {
  with_element(of.from_type, [&]<class From>(std::type_identity<From>) {
    with_element(of.to_type, [&]<class To>(std::type_identity<To>) {
      launch(conversion_kernel<From, To>{of});
    });
  });
}

}  // namespace detail
}  // namespace fssdp
