// SPDX-License-Identifier: Apache-2.0
/// Errors of the planner with the names of items in place of their numbers.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ownership {

/// Replaces the numbers that follow "item", "items" or "with" by names in quotes.
[[nodiscard]] inline std::string with_names(std::string_view text,
                                            std::vector<std::string> const& names) {
  auto named = std::string{};
  auto const take = [&](std::string_view words) {
    if (!text.starts_with(words)) return false;
    named += words;
    text.remove_prefix(words.size());
    return true;
  };
  auto const take_number = [&] {
    auto number = std::size_t{0};
    auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{} || number >= names.size()) return false;
    named += '"' + names[number] + '"';
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  while (!text.empty()) {
    if (take("item ") || take("items ") || take("together with ")) {
      while (take_number())
        if (!take(", ") && !take(" and ") && !take(" to ")) break;
    } else {
      named += text.front();
      text.remove_prefix(1);
    }
  }
  return named;
}

}  // namespace ownership
