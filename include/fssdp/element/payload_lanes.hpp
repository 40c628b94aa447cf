// SPDX-License-Identifier: Apache-2.0
/// How kernels read elements of a payload: several at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fssdp/element/bf16.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/fp8_rule.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/element/lane_conversion.hpp"
#include "fssdp/element/payload_code.hpp"
#include "fssdp/element/rounded.hpp"

namespace fssdp::detail {

/// The alignment of payloads that this requires.
inline constexpr std::size_t payload_access = sizeof(narrow_block);

/// N elements of a payload with codes of type Code, all in one block.
template <class Code, std::size_t N>
struct payload_lanes {
  using layout = payload_layout<std::conditional_t<sizeof(Code) == 1, int8_rule, bf16_rule>>;
  using lanes = element_lanes<Code, N, payload_access>;

  /// The elements as they were read.
  struct packed {
    float scale;
    typename lanes::packed codes;
  };
  /// @pre N divides `first` and the size of a block; the payload is aligned to payload_access
  [[nodiscard]] FSSDP_HOST_DEVICE static packed read(void const* payload, std::size_t first) {
    auto const* const begin = static_cast<std::byte const*>(payload);
    auto result = packed{.scale = 1, .codes = {}};
    if constexpr (layout::has_scales)
      result.scale = std::bit_cast<float>(
          reinterpret_cast<narrow_block const*>(begin + layout::scale_of(first))->words[0]);
    result.codes = lanes::read(reinterpret_cast<Code const*>(begin + layout::code_of(first)));
    return result;
  }
};

/// The element type with the bits of the codes of a rule; void if there is none.
template <class Rule>
struct type_of_codes : std::type_identity<void> {};
template <class Fp8>
struct type_of_codes<fp8_rule<Fp8>> : std::type_identity<Fp8> {};
template <>
struct type_of_codes<bf16_rule> : std::type_identity<bf16> {};

/// Lanes of elements instead of lanes of their bits.
template <class T, class Lanes>
using lanes_like = element_lanes<T, Lanes::count, sizeof(typename Lanes::block)>;

/// The values of codes, before they are scaled.
/// @tparam Lanes the type as which they were read
template <class Rule, class Lanes>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<float, Lanes::count> numbers_of(
    typename Lanes::packed const& words) {
  using type = typename type_of_codes<Rule>::type;
  if constexpr (std::is_void_v<type>) {
    auto const codes = Lanes::of(words);
    auto result = element_lanes<float, Lanes::count>{};
    for (std::size_t i = 0; i < Lanes::count; ++i) result.at[i] = Rule::value(codes.at[i]);
    return result;
  } else {
    return unpacked<float, lanes_like<type, Lanes>>(words);
  }
}
/// The codes of scaled values.
/// @tparam Lanes the type as which they are written
template <class Rule, class Lanes>
[[nodiscard]] FSSDP_HOST_DEVICE typename Lanes::packed codes_of(
    element_lanes<float, Lanes::count> const& numbers) {
  using type = typename type_of_codes<Rule>::type;
  if constexpr (std::is_void_v<type>) {
    auto codes = Lanes{};
    for (std::size_t i = 0; i < Lanes::count; ++i) codes.at[i] = Rule::code(numbers.at[i]);
    return codes.pack();
  } else {
    return packed_as<lanes_like<type, Lanes>>(numbers);
  }
}

/// The value of a code, as an element; exact.
template <class Rule, class Code>
[[nodiscard]] FSSDP_HOST_DEVICE float decoded(Code code, float scale) {
  if constexpr (payload_layout<Rule>::has_scales)
    return product(Rule::value(code), scale);
  else
    return Rule::value(code);
}
/// The same for codes that were read.
template <class Rule, class Lanes, class Packed>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<float, Lanes::count> decoded_lanes(
    Packed const& read) {
  auto result = numbers_of<Rule, Lanes>(read.codes);
  if constexpr (payload_layout<Rule>::has_scales)
    for (auto& each : result.at) each = product(each, read.scale);
  return result;
}
/// One element of a payload at any address. Rarely needed; inlined, it would make kernels several
/// times as long.
[[nodiscard, gnu::noinline]] FSSDP_HOST_DEVICE inline float decoded_at(payload_code code,
                                                                       void const* payload,
                                                                       std::size_t i) {
  return with_rule(code, [&]<class Rule>(std::type_identity<Rule>) {
    using layout = payload_layout<Rule>;
    auto const* const begin = static_cast<std::byte const*>(payload);
    auto scale = 1.0F;
    if constexpr (layout::has_scales)
      std::memcpy(&scale, begin + layout::scale_of(i), sizeof scale);
    auto element = typename layout::code_type{};
    std::memcpy(&element, begin + layout::code_of(i), sizeof element);
    return decoded<Rule>(element, scale);
  });
}

}  // namespace fssdp::detail
