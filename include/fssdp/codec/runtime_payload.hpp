// SPDX-License-Identifier: Apache-2.0
/// A type-erased codec for elements of any dtype.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/element/runtime_work.hpp"

namespace fssdp::detail {

/// Applies a codec to elements of any dtype: converts them to floats, a stretch at a time. The bits
/// are those of encode_elements, encode_with_feedback and decode_elements.
template <codec Codec>
class runtime_payload {
  static constexpr std::size_t stretch = stretch_elements<Codec>;

 public:
  static void encode(void const* codec, dtype type, void const* from, std::size_t elements,
                     std::span<std::byte> payload) {
    auto const& coder = *static_cast<Codec const*>(codec);
    as_floats(type, from, elements, [&](std::span<float const> floats, std::size_t) {
      auto const bytes = coder.encoded_bytes(floats.size());
      coder.encode(floats, payload.first(bytes));
      payload = payload.subspan(bytes);
    });
  }
  static void encode_residual(void const* codec, dtype type, void const* from,
                              std::span<float> residual, std::span<std::byte> payload) {
    auto const& coder = *static_cast<Codec const*>(codec);
    if (type == dtype::fp64)  // its sums are doubles
      return encode_with_feedback(
          coder, std::span{static_cast<double const*>(from), residual.size()}, residual, payload);
    as_floats(type, from, residual.size(), [&](std::span<float const> floats, std::size_t first) {
      auto const bytes = coder.encoded_bytes(floats.size());
      encode_with_feedback(coder, floats, residual.subspan(first, floats.size()),
                           payload.first(bytes));
      payload = payload.subspan(bytes);
    });
  }
  static void decode(void const* codec, std::span<std::byte const> payload, dtype type, void* to,
                     std::size_t elements) {
    auto const& coder = *static_cast<Codec const*>(codec);
    if (type == dtype::fp32) {
      coder.decode(payload, std::span{static_cast<float*>(to), elements});
      return;
    }
    auto const conversion = runtime_conversion(dtype::fp32, type);
    auto floats = std::array<float, stretch>{};
    for (std::size_t first = 0; first < elements; first += stretch) {
      auto const n = std::min(stretch, elements - first);
      auto const bytes = coder.encoded_bytes(n);
      coder.decode(payload.first(bytes), std::span{floats}.first(n));
      conversion.on_host(conversion, floats.data(),
                         static_cast<std::byte*>(to) + first * bytes_of(type), n);
      payload = payload.subspan(bytes);
    }
  }

 private:
  /// Calls use(floats, first) for all elements: once if they are floats, otherwise for each
  /// stretch.
  template <class Use>
  static void as_floats(dtype type, void const* from, std::size_t elements, Use use) {
    if (type == dtype::fp32) {
      use(std::span{static_cast<float const*>(from), elements}, std::size_t{0});
      return;
    }
    auto const conversion = runtime_conversion(type, dtype::fp32);
    auto floats = std::array<float, stretch>{};
    for (std::size_t first = 0; first < elements; first += stretch) {
      auto const n = std::min(stretch, elements - first);
      conversion.on_host(conversion, static_cast<std::byte const*>(from) + first * bytes_of(type),
                         floats.data(), n);
      use(std::span<float const>{floats}.first(n), first);
    }
  }
};

template <codec Codec>
[[nodiscard]] payload_codec make_runtime_payload(Codec const& coder) {
  using payload = runtime_payload<Codec>;
  auto of = payload_codec::sizes_of(coder);
  of.of_source = {.plain = &payload::encode, .with_feedback = &payload::encode_residual};
  of.of_sums = of.of_source;
  of.to_target = &payload::decode;
  return of;
}

}  // namespace fssdp::detail
