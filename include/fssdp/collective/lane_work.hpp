// SPDX-License-Identifier: Apache-2.0
/// Sums and conversions in the order of a lane: at once where its memory is the host's.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/collective/accumulate.hpp"
#include "fssdp/collective/convert.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/copy_bytes.hpp"
#include "fssdp/core/stream.hpp"
#include "fssdp/element/device_conversion.hpp"
#include "fssdp/element/device_sum.hpp"
#include "fssdp/element/dtype.hpp"

namespace fssdp::detail {

/// Whether what a lane moves can be read and written by the host.
template <class Lane>
inline constexpr bool in_host_memory = std::same_as<memory_space_of<Lane>, host_memory>;

/// `accumulate` in the order of the lane.
/// @pre a device can sum so many at once (most_operands)
template <class Lane, element T, element Out>
void sum_on(Lane& lane, std::span<summand<T> const> summands, std::span<Out> out,
            std::type_identity_t<accumulator_t<T>> scale = 1, output how = output::write) {
  if constexpr (in_host_memory<Lane>) {
    accumulate(summands, out, scale, how);
  } else {
    static_assert(device_communicator<Lane>, "a lane in other memory says how sums are formed");
    if (out.empty()) return;
    auto sum = device_sum{};
    sum.partials = kind_of<T>;
    sum.results = kind_of<Out>;
    sum.how = how;
    sum.scale = scale;
    sum.elements = out.size();
    sum.out = out.data();
    sum.count = summands.size();
    std::ranges::transform(summands, sum.operands.begin(), [](summand<T> const& s) {
      return s.summed != nullptr ? device_sum::operand{s.summed, true}
                                 : device_sum::operand{s.partial, false};
    });
    lane.sum(sum);
  }
}

/// Copies bytes in the order of the lane.
template <class Lane>
void copy_on(Lane& lane, std::span<std::byte const> from, std::span<std::byte> to) {
  if constexpr (in_host_memory<Lane>) {
    copy_bytes(to, from);
  } else {
    static_assert(device_communicator<Lane>, "a lane in other memory says how bytes are copied");
    lane.copy(to, from);
  }
}

/// `convert` in the order of the lane.
template <class Lane, class From, class To>
void convert_on(Lane& lane, std::span<From const> from, std::span<To> to) {
  if constexpr (in_host_memory<Lane>) {
    convert(from, to);
  } else {
    static_assert(device_communicator<Lane>, "a lane in other memory says how types change");
    if (from.empty()) return;
    if constexpr (std::is_same_v<From, To>) {
      static_assert(std::is_trivially_copyable_v<From>);
      lane.copy(std::as_writable_bytes(to), std::as_bytes(from));
    } else {
      lane.convert(device_conversion{.from_kind = kind_of<From>,
                                     .to_kind = kind_of<To>,
                                     .elements = from.size(),
                                     .from = from.data(),
                                     .to = to.data()});
    }
  }
}

}  // namespace fssdp::detail
