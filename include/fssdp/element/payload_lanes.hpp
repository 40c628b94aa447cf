// SPDX-License-Identifier: Apache-2.0
/// How a kernel reads elements of a payload: some at once.
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

/// What a payload has to begin at a multiple of for that.
inline constexpr std::size_t payload_access = sizeof(narrow_block);

/// N elements of a payload whose codes are numbers of type Code, all of one block.
template <class Code, std::size_t N>
struct payload_lanes {
  using layout = payload_layout<std::conditional_t<sizeof(Code) == 1, int8_rule, bf16_rule>>;
  using lanes = element_lanes<Code, N, payload_access>;

  /// They as they are read.
  struct packed {
    float scale;
    typename lanes::packed codes;
  };
  /// @pre N divides `first` and the size of a block; the payload is at a multiple of payload_access
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

/// The type of which the codes of a rule are the bits; void if there is none.
template <class Rule>
struct type_of_codes : std::type_identity<void> {};
template <class Fp8>
struct type_of_codes<fp8_rule<Fp8>> : std::type_identity<Fp8> {};
template <>
struct type_of_codes<bf16_rule> : std::type_identity<bf16> {};

/// Lanes of elements in place of those of their bits.
template <class T, class Lanes>
using lanes_like = element_lanes<T, Lanes::count, sizeof(typename Lanes::block)>;

/// The numbers that codes stand for, before they are scaled.
/// @tparam Lanes what they have been read as
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
/// The codes of numbers that have been scaled.
/// @tparam Lanes what they are to be written as
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

/// An element that a code stands for. Nothing is rounded.
template <class Rule, class Code>
[[nodiscard]] FSSDP_HOST_DEVICE float decoded(Code code, float scale) {
  if constexpr (payload_layout<Rule>::has_scales)
    return product(Rule::value(code), scale);
  else
    return Rule::value(code);
}
/// The same of codes that have been read.
template <class Rule, class Lanes, class Packed>
[[nodiscard]] FSSDP_HOST_DEVICE element_lanes<float, Lanes::count> decoded_lanes(
    Packed const& read) {
  auto result = numbers_of<Rule, Lanes>(read.codes);
  if constexpr (payload_layout<Rule>::has_scales)
    for (auto& each : result.at) each = product(each, read.scale);
  return result;
}
/// One element of a payload, wherever that begins. It is rarely needed: inlined, it would make
/// kernels several times as long.
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
