// SPDX-License-Identifier: Apache-2.0
/// A codec as a value: what the collectives encode and decode with.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_kind.hpp"

namespace fssdp::detail {

/// Encodes elements of one type.
struct payload_encoder {
  /// As `encode_elements`.
  void (*plain)(void const* codec, void const* from, std::size_t elements,
                std::span<std::byte> payload) = nullptr;
  /// As `encode_with_feedback`.
  void (*with_feedback)(void const* codec, void const* from, std::span<float> residual,
                        std::span<std::byte> payload) = nullptr;
};

template <codec Codec, element T>
[[nodiscard]] constexpr payload_encoder make_encoder() {
  return {.plain =
              [](void const* coder, void const* from, std::size_t elements,
                 std::span<std::byte> payload) {
                encode_elements(*static_cast<Codec const*>(coder),
                                std::span{static_cast<T const*>(from), elements}, payload);
              },
          .with_feedback =
              [](void const* coder, void const* from, std::span<float> residual,
                 std::span<std::byte> payload) {
                encode_with_feedback(*static_cast<Codec const*>(coder),
                                     std::span{static_cast<T const*>(from), residual.size()},
                                     residual, payload);
              }};
}

/// Decodes to elements of one type, as `decode_elements`.
using payload_decoder = void (*)(void const* codec, std::span<std::byte const> payload, void* to,
                                 std::size_t elements);

template <codec Codec, element T>
[[nodiscard]] constexpr payload_decoder make_decoder() {
  return [](void const* coder, std::span<std::byte const> payload, void* to, std::size_t elements) {
    decode_elements(*static_cast<Codec const*>(coder), payload,
                    std::span{static_cast<T*>(to), elements});
  };
}

/// A codec that somebody else keeps, for what a rank gives (Source), for sums of it, and for what it
/// gets (Target).
class payload_codec {
 public:
  payload_encoder of_source;
  payload_encoder of_sums;
  std::size_t stretch = 1;  ///< so many elements are coded at once, a number of whole blocks

  template <element Source, element Target, codec Codec>
  [[nodiscard]] static payload_codec make(Codec const& coder) {
    auto of = sizes_of(coder);
    of.of_source = make_encoder<Codec, Source>();
    of.of_sums = make_encoder<Codec, accumulator_t<Source>>();
    of.decode_ = make_decoder<Codec, Target>();
    return of;
  }
  /// The same for types that are known at run time.
  template <codec Codec>
  [[nodiscard]] static payload_codec make(Codec const& coder, element_kind source,
                                          element_kind target) {
    auto of = sizes_of(coder);
    with_element(source, [&]<class T>(std::type_identity<T>) {
      of.of_source = make_encoder<Codec, T>();
      of.of_sums = make_encoder<Codec, accumulator_t<T>>();
    });
    of.decode_ = with_element(
        target, []<class T>(std::type_identity<T>) { return make_decoder<Codec, T>(); });
    return of;
  }
  /// One that says how large payloads are, and codes nothing.
  template <codec Codec>
  [[nodiscard]] static payload_codec sizes_of(Codec const& coder) {
    auto of = payload_codec{};
    of.codec_ = &coder;
    of.stretch = stretch_elements<Codec>;
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
  void encode(payload_encoder const& with, void const* from, std::size_t elements,
              std::span<std::byte> payload) const {
    with.plain(codec_, from, elements, payload);
  }
  void encode(payload_encoder const& with, void const* from, std::span<float> residual,
              std::span<std::byte> payload) const {
    with.with_feedback(codec_, from, residual, payload);
  }
  void decode(std::span<std::byte const> payload, void* to, std::size_t elements) const {
    decode_(codec_, payload, to, elements);
  }

 private:
  payload_codec() = default;

  void const* codec_ = nullptr;
  char const* name_ = "";
  std::size_t (*encoded_bytes_)(void const*, std::size_t) = nullptr;
  payload_decoder decode_ = nullptr;
};

}  // namespace fssdp::detail
