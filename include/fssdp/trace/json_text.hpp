// SPDX-License-Identifier: Apache-2.0
/// Texts as JSON strings.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fssdp::detail {

/// The number of bytes of the first UTF-8 character of a text that is not empty; 0 if its first
/// bytes are not valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] constexpr std::size_t utf8_bytes(std::string_view text) {
  auto const at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  auto const follows = [&](std::size_t i, unsigned least = 0x80, unsigned most = 0xBF) {
    return at(i) >= least && at(i) <= most;
  };
  auto const first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF)
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3
                                                                                              : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) &&
                   follows(3)
               ? 4
               : 0;
  return 0;
}

/// Appends the text in quotes, with escapes; bytes that are not valid UTF-8 become U+FFFD.
inline void append_json_text(std::string& json, std::string_view text) {
  constexpr auto hex = std::string_view{"0123456789abcdef"};
  json += '"';
  while (!text.empty()) {
    auto const bytes = utf8_bytes(text);
    auto const first = static_cast<unsigned char>(text[0]);
    if (bytes == 0) {
      json += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      json += '\\';
      json += text[0];
    } else if (first < 0x20) {
      json += "\\u00";
      json += hex[first / 16];
      json += hex[first % 16];
    } else {
      json += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  json += '"';
}

}  // namespace fssdp::detail
