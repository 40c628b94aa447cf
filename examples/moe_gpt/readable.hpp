// SPDX-License-Identifier: Apache-2.0
/// Figures and bytes as people read them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moe_gpt {

/// 1536 -> "1.5 KiB".
[[nodiscard]] inline std::string readable_bytes(double bytes) {
  constexpr auto units = std::array{"B", "KiB", "MiB", "GiB", "TiB"};
  auto unit = std::size_t{0};
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

/// 12345 -> "12.3k".
[[nodiscard]] inline std::string readable_count(double count) {
  if (count >= 1e6) return fmt::format("{:.1f}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

/// 75 -> "1:15".
[[nodiscard]] inline std::string readable_seconds(double seconds) {
  auto const whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

namespace detail {

/// The bytes of the UTF-8 character at the start, or 0 where there is none that is safe to show.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  auto const lead = byte(0);
  auto const length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  auto const size = static_cast<std::size_t>(length);
  if (size == 0 || lead > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (lead == 0xc2 && byte(1) < 0xa0) return 0;  // control characters
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  return size;
}

}  // namespace detail

/// Text that a terminal shows and does not obey: other bytes become \xNN.
[[nodiscard]] inline std::string printable(std::string_view text) {
  auto shown = std::string{};
  for (std::size_t i = 0; i < text.size();) {
    auto const first = static_cast<unsigned char>(text[i]);
    auto const length = detail::utf8_length(text.substr(i));
    if (length == 0 || (first < 0x20 && first != '\n') || first == 0x7f) {
      shown += first == '\t' ? std::string{"  "} : fmt::format("\\x{:02x}", first);
      ++i;
    } else {
      shown += text.substr(i, length);
      i += length;
    }
  }
  return shown;
}

}  // namespace moe_gpt
