// SPDX-License-Identifier: Apache-2.0
/// One byte per element, 3 significant bits: for gradients of very different magnitudes.
#pragma once

#include <optional>

#include "fssdp/codec/scaled_codec.hpp"
#include "fssdp/element/fp8.hpp"
#include "fssdp/element/fp8_rule.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp {

/// 260 bytes for 256 elements: a power of two s, the smallest with largest <= 57344 s, and every x
/// as the nearest fp8_e5m2 of x / s, ties to even. A block has 31 binary orders of magnitude below
/// its largest element.
///
/// The error of an element is at most 2^-3 of it, or 2^-17 s if that is more (for elements below
/// 2^-14 s). s is at least 2^-126, and at most 2^112: magnitudes above 57344 * 2^112, which is
/// 1.75 * 2^127, saturate to that. Zero keeps its sign, and so does an element that becomes zero.
/// Infinities stay infinities, with their sign; NaN stays NaN. A block of zeros has the smallest s.
using fp8_e5m2_codec = scaled_codec<detail::fp8_rule<fp8_e5m2>>;

static_assert(codec<fp8_e5m2_codec>);

namespace detail {

template <>
inline constexpr std::optional<payload_code> code_on_devices<fp8_e5m2_codec> = payload_code::e5m2;

}  // namespace detail

}  // namespace fssdp
