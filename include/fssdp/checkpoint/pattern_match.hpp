// SPDX-License-Identifier: Apache-2.0
/// Finds the layer and the expert in a name.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "fssdp/checkpoint/tensor_pattern.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The numbers in the gaps of a name; 0 if the pattern has no such gap.
struct pattern_match {
  int layer = 0;
  int expert = 0;
};

/// The numbers from which tensor_pattern{pattern} makes this name; empty if it cannot.
/// @throws argument_error if the pattern has a gap other than {layer} and {expert}
[[nodiscard]] inline std::optional<pattern_match> match_pattern(std::string_view pattern,
                                                                std::string_view name) {
  auto found = pattern_match{};
  auto const whole = name;
  auto rest = pattern;
  for (auto open = rest.find('{'); open != rest.npos; open = rest.find('{')) {
    if (!name.starts_with(rest.substr(0, open))) return {};
    name.remove_prefix(open);
    rest.remove_prefix(open);
    auto& number = rest.starts_with("{layer}") ? found.layer : found.expert;
    auto const [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (wrong != std::errc{} || number < 0) return {};
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    auto const close = rest.find('}');
    rest.remove_prefix(close == rest.npos ? rest.size() : close + 1);
  }
  if (name != rest) return {};
  // Filling in the numbers that were found must give the name back. It does not if a number has
  // leading zeros, or if the name has two different numbers where the pattern has the same gap.
  auto const made = tensor_pattern{std::string{pattern}}(
      {layer_id{found.layer}, expert_id{found.expert}, {}, {}});
  if (made != whole) return {};
  return found;
}

}  // namespace fssdp::detail
