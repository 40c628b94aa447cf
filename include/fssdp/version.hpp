// SPDX-License-Identifier: Apache-2.0
/// The version of the library; the build reads it from here.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace fssdp {

/// The numbers of this version: major.minor.patch.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 2;
inline constexpr int version_patch = 0;

namespace detail {

/// The text "major.minor.patch", followed by zeros.
[[nodiscard]] constexpr std::array<char, 36> version_text() {
  auto text = std::array<char, 36>{};
  std::size_t end = 0;
  for (int const part : {version_major, version_minor, version_patch}) {
    if (end != 0) text[end++] = '.';
    int unit = 1;
    while (part / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) text[end++] = static_cast<char>('0' + part / unit % 10);
  }
  return text;
}

inline constexpr auto version_characters = version_text();

}  // namespace detail

/// "major.minor.patch", ended by a zero.
inline constexpr std::string_view version_string{detail::version_characters.data()};

}  // namespace fssdp
