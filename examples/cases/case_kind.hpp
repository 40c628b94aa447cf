// SPDX-License-Identifier: Apache-2.0
/// The cases by name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace cases {

enum class case_kind { pairs, hot, zipf, hot_node, random };

/// In the order of the enumerators.
inline constexpr auto case_names =
    std::array<std::string_view, 5>{"pairs", "hot", "zipf", "hot-node", "random"};

[[nodiscard]] constexpr std::string_view name_of(case_kind which) {
  return case_names[static_cast<std::size_t>(which)];
}
/// The case of a name, if there is one.
[[nodiscard]] constexpr std::optional<case_kind> case_named(std::string_view name) {
  auto const at = std::find(case_names.begin(), case_names.end(), name);
  if (at == case_names.end()) return {};
  return static_cast<case_kind>(at - case_names.begin());
}

}  // namespace cases
