// SPDX-License-Identifier: Apache-2.0
/// The types that an instance of a test case is about.
#pragma once

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

/// The element types of what is given and of what comes out, and the codec between them, if any.
template <class From, class To, class Codec = void>
struct types {
  using from = From;
  using to = To;
  using codec = Codec;
};

}  // namespace support
