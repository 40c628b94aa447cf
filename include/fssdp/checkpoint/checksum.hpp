// SPDX-License-Identifier: Apache-2.0
/// Checksums: XXH3 with 64 bits, as printed by xxhsum -H3.
#pragma once

#include <xxhash.h>
#ifdef FSSDP_XXHASH_DISPATCHES  // set by FindxxHash.cmake: same results, with the widest vectors
#include <xxh_x86dispatch.h>
#endif

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace fssdp {

/// The checksum of some bytes: detects accidental changes, not forgeries.
/// @cost reads every byte once, at memory bandwidth
[[nodiscard]] inline std::uint64_t checksum(std::span<std::byte const> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
[[nodiscard]] inline std::uint64_t checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span{text}));
}

/// The number of digits of a checksum in a file.
inline constexpr std::size_t checksum_digits = 16;

namespace detail {

/// The text of a checksum in a file: always this number of lower-case hexadecimal digits.
[[nodiscard]] inline std::string to_hex(std::uint64_t value) {
  constexpr auto digits = std::string_view{"0123456789abcdef"};
  auto hex = std::string(checksum_digits, '0');
  for (auto at = hex.rbegin(); at != hex.rend(); ++at, value /= 16) *at = digits[value % 16];
  return hex;
}
/// Parses a checksum; empty if the digits are invalid.
[[nodiscard]] inline std::optional<std::uint64_t> from_hex(std::string_view digits) {
  if (digits.size() != checksum_digits ||
      digits.find_first_not_of("0123456789abcdef") != digits.npos)
    return {};
  auto value = std::uint64_t{0};
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

}  // namespace detail
}  // namespace fssdp
