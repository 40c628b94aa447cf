// SPDX-License-Identifier: Apache-2.0
/// A type-erased codec: what the collectives encode and decode with.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <typeinfo>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp::detail {

/// Encodes elements of a fixed type, or of the type that it is given.
struct payload_encoder {
  /// As `encode_elements`.
  void (*plain)(void const* codec, dtype type, void const* from, std::size_t elements,
                std::span<std::byte> payload) = nullptr;
  /// As `encode_with_feedback`.
  void (*with_feedback)(void const* codec, dtype type, void const* from, std::span<float> residual,
                        std::span<std::byte> payload) = nullptr;
};

template <codec Codec, element T>
[[nodiscard]] constexpr payload_encoder make_encoder() {
  return {.plain =
              [](void const* coder, dtype, void const* from, std::size_t elements,
                 std::span<std::byte> payload) {
                encode_elements(*static_cast<Codec const*>(coder),
                                std::span{static_cast<T const*>(from), elements}, payload);
              },
          .with_feedback =
              [](void const* coder, dtype, void const* from, std::span<float> residual,
                 std::span<std::byte> payload) {
                encode_with_feedback(*static_cast<Codec const*>(coder),
                                     std::span{static_cast<T const*>(from), residual.size()},
                                     residual, payload);
              }};
}

/// As `decode_elements`.
using payload_decoder = void (*)(void const* codec, std::span<std::byte const> payload, dtype type,
                                 void* to, std::size_t elements);

/// A reference to a codec, with the types of what a rank sends (Source), of sums of it, and of what
/// it receives (Target).
class payload_codec {
 public:
  payload_encoder of_source;
  payload_encoder of_sums;
  payload_decoder to_target = nullptr;
  std::size_t stretch = 1;                      ///< elements coded in one step: whole blocks
  std::optional<payload_code> on_devices = {};  ///< the code of its device kernels, if any

  template <element Source, element Target, codec Codec>
  [[nodiscard]] static payload_codec make(Codec const& coder) {
    auto of = sizes_of(coder);
    of.of_source = make_encoder<Codec, Source>();
    of.of_sums = make_encoder<Codec, accumulator_t<Source>>();
    of.to_target = [](void const* codec, std::span<std::byte const> payload, dtype, void* to,
                      std::size_t elements) {
      decode_elements(*static_cast<Codec const*>(codec), payload,
                      std::span{static_cast<Target*>(to), elements});
    };
    return of;
  }
  /// For sizes of payloads only; it cannot encode.
  template <codec Codec>
  [[nodiscard]] static payload_codec sizes_of(Codec const& coder) {
    auto of = payload_codec{};
    of.codec_ = &coder;
    of.stretch = stretch_elements<Codec>;
    of.on_devices = code_on_devices<Codec>;
    of.name_ = typeid(Codec).name();
    of.encoded_bytes_ = [](void const* codec, std::size_t elements) {
      return static_cast<Codec const*>(codec)->encoded_bytes(elements);
    };
    return of;
  }

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::size_t encoded_bytes(std::size_t elements) const {
    return encoded_bytes_(codec_, elements);
  }
  void encode(payload_encoder const& with, dtype type, void const* from, std::size_t elements,
              std::span<std::byte> payload) const {
    with.plain(codec_, type, from, elements, payload);
  }
  void encode(payload_encoder const& with, dtype type, void const* from, std::span<float> residual,
              std::span<std::byte> payload) const {
    with.with_feedback(codec_, type, from, residual, payload);
  }
  void decode(std::span<std::byte const> payload, dtype type, void* to,
              std::size_t elements) const {
    to_target(codec_, payload, type, to, elements);
  }

 private:
  payload_codec() = default;

  void const* codec_ = nullptr;
  char const* name_ = "";
  std::size_t (*encoded_bytes_)(void const*, std::size_t) = nullptr;
};

}  // namespace fssdp::detail
