// SPDX-License-Identifier: Apache-2.0
/// One byte per element, 255 equidistant values per block.
#pragma once

#include <optional>

#include "fssdp/codec/scaled_codec.hpp"
#include "fssdp/element/int8_rule.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp {

/// 260 bytes for 256 elements: a step s, which is largest / 127 rounded up to 17 significant bits,
/// and every x as the nearest of -127 s, -126 s, ..., 127 s, ties to the even multiple. The largest
/// element becomes 127 s or -127 s.
///
/// The error of an element is at most (0.5 + 2^-16) s: largest / 254, increased by at most 2^-14 of
/// that, where s is above its minimum 2^-126; elements of smaller blocks become multiples of that.
/// Nothing saturates. Zeros of both signs, and elements below half a step, become +0. There is no
/// infinity: infinities and NaN have the code -128 and become NaN. A block of zeros has the
/// smallest s.
using int8_codec = scaled_codec<detail::int8_rule>;

static_assert(codec<int8_codec>);

namespace detail {

template <>
inline constexpr std::optional<payload_code> code_on_devices<int8_codec> = payload_code::int8;

}  // namespace detail

}  // namespace fssdp
