// SPDX-License-Identifier: Apache-2.0
/// Conversions of elements on a device, in the order of a stream.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "fssdp/element/converted.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"
#include "fssdp/element/part_of.hpp"

namespace fssdp {

/// Conversions to be made in one launch: to[i] = from[i], rounded once, as by `convert`. Small
/// enough for the arguments of a kernel. None of them may write what another one reads.
struct device_conversions {
  static constexpr std::size_t most = 96;

  struct conversion {
    void const* from;
    void* to;
    std::size_t elements;
  };

  dtype from_type = dtype::fp32;
  dtype to_type = dtype::fp32;
  std::size_t count = 0;
  std::array<conversion, most> conversions;

  /// @pre count < most
  void add(conversion const& of) { conversions[count++] = of; }
};

namespace detail {

/// The steps of device_conversions, one conversion after the other.
template <element From, element To>
class conversion_kernel {
 public:
  static constexpr auto lanes = lanes_of<From, To>;
  /// The bytes that a thread holds in one step: values and results.
  static constexpr auto held_bytes = lanes * (sizeof(From) + sizeof(To));

  explicit conversion_kernel(device_conversions const& of) : of_{of} {
    first_step_[0] = 0;
    for (std::size_t i = 0; i < of.count; ++i) {
      auto const& [from, to, elements] = of.conversions[i];
      first_step_[i + 1] = first_step_[i] + (elements + lanes - 1) / lanes;
      wide_[i] = is_wide(from) && is_wide(to);
    }
  }
  /// The number of steps.
  [[nodiscard]] std::size_t steps() const { return first_step_[of_.count]; }

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const i = part_of(first_step_.data(), of_.count, step);
    auto const& each = of_.conversions[i];
    auto const first = (step - first_step_[i]) * lanes;
    auto const* const from = static_cast<From const*>(each.from);
    auto* const to = static_cast<To*>(each.to);
    if (wide_[i] && each.elements - first >= lanes) {
      using from_lanes = element_lanes<From, lanes>;
      using to_lanes = element_lanes<To, lanes>;
      auto const words = from_lanes::read(from + first);
      if constexpr (is_fp8<From>)
        to_lanes::write(packed_as<to_lanes>(unpacked<float, from_lanes>(words)), to + first);
      else
        to_lanes::write(packed_as<to_lanes>(from_lanes::of(words)), to + first);
    } else {
      for (auto at = first; at < each.elements && at < first + lanes; ++at)
        to[at] = converted<To>(from[at]);
    }
  }

 private:
  device_conversions of_;
  std::array<std::size_t, device_conversions::most + 1> first_step_;  // of each, and the end
  std::array<bool, device_conversions::most>
      wide_;  // [conversions]: whether its addresses allow wide accesses
};

/// Calls launch(kernel) with the kernel for the types of the conversions.
template <class Launch>
void with_kernel(device_conversions const& of, Launch launch) {
  with_element(of.from_type, [&]<class From>(std::type_identity<From>) {
    with_element(of.to_type, [&]<class To>(std::type_identity<To>) {
      launch(conversion_kernel<From, To>{of});
    });
  });
}

}  // namespace detail
}  // namespace fssdp
