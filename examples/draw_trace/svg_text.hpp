// SPDX-License-Identifier: Apache-2.0
/// Any text as text of SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "fssdp/trace/json_text.hpp"

namespace draw {

/// The text, escaped, without what XML cannot hold, and cut after so many characters.
[[nodiscard]] inline std::string svg_text(std::string_view text, std::size_t most = 400) {
  constexpr auto replacement = std::string_view{"\xEF\xBF\xBD"};  // U+FFFD
  auto escaped = std::string{};
  for (; !text.empty() && most > 0; --most) {
    auto const bytes = fssdp::detail::utf8_bytes(text);
    auto const letter = text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
    if (letter == "&")
      escaped += "&amp;";
    else if (letter == "<")
      escaped += "&lt;";
    else if (letter == ">")
      escaped += "&gt;";
    else if (letter == "\"")
      escaped += "&quot;";
    else if (letter.empty() || (bytes == 1 && letter[0] < ' ' && letter[0] != '\n') ||
             letter == "\xEF\xBF\xBE" || letter == "\xEF\xBF\xBF")
      escaped += replacement;
    else
      escaped += letter;
  }
  if (!text.empty()) escaped += "...";
  return escaped;
}

}  // namespace draw
