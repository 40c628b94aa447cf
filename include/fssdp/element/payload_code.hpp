// SPDX-License-Identifier: Apache-2.0
/// The payloads that device kernels read and write: those of the library's codecs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "fssdp/element/bf16.hpp"
#include "fssdp/element/fp8.hpp"
#include "fssdp/element/fp8_rule.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/int8_rule.hpp"

namespace fssdp {

/// The codes of a payload: those of int8_codec, fp8_e4m3_codec, fp8_e5m2_codec or bf16_codec.
/// fp8_e5m2_codec or bf16_codec.
enum class payload_code : std::uint8_t { int8, e4m3, e5m2, bf16 };

/// All of them, in the order of their values.
inline constexpr std::array all_payload_codes = {payload_code::int8, payload_code::e4m3,
                                                 payload_code::e5m2, payload_code::bf16};

namespace detail {

/// The code of a codec with device kernels; empty for others. Defined beside each codec, for
/// exactly that type, as a derived type may encode differently.
template <class Codec>
inline constexpr std::optional<payload_code> code_on_devices = {};

/// The number of elements with a common scale, for codes with scales.
inline constexpr std::size_t payload_block_elements = 256;

/// Every float as the nearest bf16, without a scale.
struct bf16_rule {
  [[nodiscard]] FSSDP_HOST_DEVICE static std::uint16_t code(float x) noexcept {
    return bf16{x}.bits();
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static float value(std::uint16_t code) noexcept {
    return static_cast<float>(bf16::from_bits(code));
  }
};

/// The layout of a payload, given its rule: for each block its scale, if there are scales, then its
/// codes.
template <class Rule>
struct payload_layout {
  using code_type = decltype(Rule::code(0.0F));
  static constexpr bool has_scales = requires { Rule::scale(0.0F); };
  static constexpr std::size_t scale_bytes = has_scales ? sizeof(float) : 0;
  static constexpr std::size_t block_bytes =
      scale_bytes + payload_block_elements * sizeof(code_type);

  [[nodiscard]] FSSDP_HOST_DEVICE static std::size_t scale_of(std::size_t element) {
    return element / payload_block_elements * block_bytes;
  }
  [[nodiscard]] FSSDP_HOST_DEVICE static std::size_t code_of(std::size_t element) {
    return scale_of(element) + scale_bytes + element % payload_block_elements * sizeof(code_type);
  }
};

/// Calls visit(std::type_identity<Rule>{}) with the rule of a code; returns its result.
template <class Visit>
constexpr decltype(auto) with_rule(payload_code code, Visit visit) {
  switch (code) {
    case payload_code::int8:
      return visit(std::type_identity<int8_rule>{});
    case payload_code::e4m3:
      return visit(std::type_identity<fp8_rule<fp8_e4m3>>{});
    case payload_code::e5m2:
      return visit(std::type_identity<fp8_rule<fp8_e5m2>>{});
    case payload_code::bf16:
      break;
  }
  return visit(std::type_identity<bf16_rule>{});
}

}  // namespace detail
}  // namespace fssdp
