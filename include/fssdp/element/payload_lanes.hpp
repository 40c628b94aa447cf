// SPDX-License-Identifier: Apache-2.0
/// How a kernel reads elements of a payload: some at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
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

/// An element that a code stands for. Nothing is rounded.
template <class Rule, class Code>
[[nodiscard]] FSSDP_HOST_DEVICE float decoded(Code code, float scale) {
  if constexpr (payload_layout<Rule>::has_scales)
    return product(Rule::value(code), scale);
  else
    return Rule::value(code);
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
