// SPDX-License-Identifier: Apache-2.0
/// What tells whether bytes are those that were written: XXH3, 64 bits, as xxhsum -H3 prints it.
#pragma once

#include <xxhash.h>
#ifdef FSSDP_XXHASH_DISPATCHES  // FindxxHash.cmake says so: the same sums, by the widest vectors
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

/// The checksum of some bytes: against accidents, not against forgers.
/// @cost reads every byte once, faster than memory gives them
[[nodiscard]] inline std::uint64_t checksum(std::span<std::byte const> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
[[nodiscard]] inline std::uint64_t checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span{text}));
}

/// The digits of a checksum in a file.
inline constexpr std::size_t checksum_digits = 16;

namespace detail {

/// A checksum in a file: always as many lower-case hexadecimal digits.
[[nodiscard]] inline std::string to_hex(std::uint64_t value) {
  constexpr auto digits = std::string_view{"0123456789abcdef"};
  auto hex = std::string(checksum_digits, '0');
  for (auto at = hex.rbegin(); at != hex.rend(); ++at, value /= 16) *at = digits[value % 16];
  return hex;
}
/// The checksum that so many digits are, if they are.
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
