// SPDX-License-Identifier: Apache-2.0
/// Element types that travel and are summed: float, double, bf16, fp16, and fp8 in two formats.
#pragma once

#include <concepts>

#include "fssdp/element/bf16.hpp"
#include "fssdp/element/fp16.hpp"
#include "fssdp/element/fp8.hpp"

namespace fssdp {

/// The types that the collectives convert and the reductions sum. (A gather that converts nothing
/// moves any trivially copyable type.) Numbers of fp8 have no scale beside them here: the codecs
/// give blocks of them one.
template <class T>
concept element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bf16> ||
    std::same_as<T, fp16> || std::same_as<T, fp8_e4m3> || std::same_as<T, fp8_e5m2>;

namespace detail {
template <element T>
struct accumulator {
  using type = float;
};
template <>
struct accumulator<double> {
  using type = double;
};
}  // namespace detail

/// The type in which sums of T are formed: double for double, float for all others.
template <element T>
using accumulator_t = typename detail::accumulator<T>::type;

}  // namespace fssdp
