// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a codec, except for one thing: LACKS says which, from 1 to 22.
#include <cstddef>
#include <span>

#include "fssdp/codec/encode_elements.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
#if LACKS == 1     // no block
#elif LACKS == 2   // a member of each object
  std::size_t block_elements = 1;
#elif LACKS == 22  // not known when this is compiled
  static std::size_t const block_elements;
#elif LACKS == 3
  static constexpr std::size_t block_elements = 0;
#elif LACKS == 4
  static constexpr std::size_t block_elements = 4097;
#else
  static constexpr std::size_t block_elements = 4096;
#endif
#if LACKS == 5  // no copy
  near_miss(near_miss const&) = delete;
#endif

#if LACKS == 6  // no size
#elif LACKS == 7
  int encoded_bytes(std::size_t elements) const { return static_cast<int>(elements); }
#elif LACKS == 8
  std::size_t encoded_bytes(std::size_t elements) { return elements; }
#else
  std::size_t encoded_bytes(std::size_t elements) const { return elements; }
#endif

#if LACKS == 9  // no encode
#elif LACKS == 10
  void encode(std::span<float const>, std::span<std::byte>) noexcept {}
#elif LACKS == 11  // changes the elements
  void encode(std::span<float>, std::span<std::byte>) const noexcept {}
#elif LACKS == 12
  void encode(std::span<float const>, std::span<std::byte>) const {}
#elif LACKS == 13  // not for floats
  void encode(std::span<double const>, std::span<std::byte>) const noexcept {}
#else
  void encode(std::span<float const>, std::span<std::byte>) const noexcept {}
#endif

#if LACKS == 14  // no decode
#elif LACKS == 15
  void decode(std::span<std::byte const>, std::span<float>) noexcept {}
#elif LACKS == 16  // changes the payload
  void decode(std::span<std::byte>, std::span<float>) const noexcept {}
#elif LACKS == 17
  void decode(std::span<std::byte const>, std::span<float>) const {}
#elif LACKS == 18  // not for floats
  void decode(std::span<std::byte const>, std::span<double>) const noexcept {}
#else
  void decode(std::span<std::byte const>, std::span<float>) const noexcept {}
#endif

#if LACKS == 19    // no error bound
#elif LACKS == 20  // lacks an argument
  double error_bound(float) const { return 0; }
#elif LACKS == 21
  float error_bound(float, float) const { return 0; }
#else
  double error_bound(float, float) const { return 0; }
#endif
};

void call(near_miss const& coder, std::span<float const> from, std::span<std::byte> payload) {
  fssdp::encode_elements(coder, from, payload);
}
