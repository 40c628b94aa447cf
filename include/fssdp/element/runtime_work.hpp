// SPDX-License-Identifier: Apache-2.0
/// Conversions and sums between any two dtypes, chosen at run time. The bits are those of `convert`
/// and `accumulate`.
#pragma once

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/element_work.hpp"

namespace fssdp::detail {

/// The conversion between any two dtypes.
[[nodiscard]] element_conversion runtime_conversion(dtype from, dtype to);
/// The sum of partials of any dtype with results of any other.
[[nodiscard]] element_sum runtime_sum_of(dtype partials, dtype results);

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/element/runtime_work_inl.hpp"
#endif
