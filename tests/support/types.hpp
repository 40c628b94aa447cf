// SPDX-License-Identifier: Apache-2.0
/// The types that an instance of a test case is about.
#pragma once

#include <utility>
#include <vector>

#include "fssdp/core/dtype.hpp"

/// The types of a template test case, the most telling ones first: all of them, or the first two
/// where FSSDP_FEW_TYPES says so, as what sanitizers look for hardly depends on types.
#if FSSDP_FEW_TYPES
#define TYPES_OF_A_TEST(first, second, ...) first, second
#else
#define TYPES_OF_A_TEST(...) __VA_ARGS__
#endif

namespace support {

/// Whether tests have all of their types, and their full sizes.
inline constexpr bool all_types = !FSSDP_FEW_TYPES;

/// The dtypes of a test in which they are values: all, or two of them.
[[nodiscard]] inline std::vector<fssdp::dtype> dtypes_of_a_test() {
  if (!all_types) return {fssdp::dtype::fp32, fssdp::dtype::bf16};
  return {fssdp::all_dtypes.begin(), fssdp::all_dtypes.end()};
}
/// Every one of them with every one.
[[nodiscard]] inline std::vector<std::pair<fssdp::dtype, fssdp::dtype>> pairs_of_dtypes() {
  auto pairs = std::vector<std::pair<fssdp::dtype, fssdp::dtype>>{};
  for (auto const first : dtypes_of_a_test())
    for (auto const second : dtypes_of_a_test()) pairs.emplace_back(first, second);
  return pairs;
}

/// The element types of what is given and of what comes out, and the codec between them, if any.
template <class From, class To, class Codec = void>
struct types {
  using from = From;
  using to = To;
  using codec = Codec;
};

}  // namespace support
