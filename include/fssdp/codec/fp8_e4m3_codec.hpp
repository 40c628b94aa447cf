// SPDX-License-Identifier: Apache-2.0
/// One byte per element, 4 significant bits: for parameters, and gradients of similar magnitudes.
#pragma once

#include <optional>

#include "fssdp/codec/scaled_codec.hpp"
#include "fssdp/element/fp8.hpp"
#include "fssdp/element/fp8_rule.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp {

/// 260 bytes for 256 elements: a power of two s, the smallest with largest <= 448 s, and every x as
/// the nearest fp8_e4m3 of x / s, ties to even. The format itself has the range 2^-9 to 448, which
/// gradients exceed; with the scale, a block has 17 binary orders of magnitude below its largest
/// element.
///
/// The error of an element is at most 2^-4 of it, or 2^-10 s if that is more (for elements below
/// 2^-6 s). s is at least 2^-126, and at most 2^119: magnitudes above 448 * 2^119, which is
/// 1.75 * 2^127, saturate to that. Zero keeps its sign, and so does an element that becomes zero.
/// There is no infinity: infinities and NaN become NaN. A block of zeros has the smallest s.
using fp8_e4m3_codec = scaled_codec<detail::fp8_rule<fp8_e4m3>>;

static_assert(codec<fp8_e4m3_codec>);

namespace detail {

template <>
inline constexpr std::optional<payload_code> code_on_devices<fp8_e4m3_codec> = payload_code::e4m3;

}  // namespace detail

}  // namespace fssdp
