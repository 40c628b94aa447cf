// SPDX-License-Identifier: Apache-2.0
/// The names of what crosses between groups, for every program that has some.
#pragma once

#include <array>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>

namespace between {

/// A method by its name, and the number that it may take.
struct method {
  std::string_view name = "full";
  int number = 0;  ///< 0: it takes none
  friend bool operator==(method const&, method const&) = default;
};
/// With their usual numbers.
inline constexpr auto methods = std::array<method, 12>{{{"full", 0},
                                                        {"bf16", 0},
                                                        {"int8", 0},
                                                        {"demo", 4},
                                                        {"demo-2d", 32},
                                                        {"striding", 16},
                                                        {"random", 16},
                                                        {"terngrad", 0},
                                                        {"powersgd", 4},
                                                        {"qsdp", 8},
                                                        {"qsdp-shift", 8},
                                                        {"tagc", 20}}};
/// How they are written.
inline constexpr auto names_of_methods =
    "full, bf16, int8, demo[:KEPT], demo-2d[:KEPT], striding[:N], random[:N], terngrad, "
    "powersgd[:RANK], qsdp[:BITS], qsdp-shift[:BITS] or tagc[:N]";

/// As it is written: with its number, if it takes one.
[[nodiscard]] inline std::string text_of(method const& of) {
  auto text = std::string{of.name};
  return of.number == 0 ? text : text + ":" + std::to_string(of.number);
}

/// @param text a name, or a name, a colon and a number
/// @throws std::invalid_argument that names --between and what was expected
[[nodiscard]] inline method method_of(std::string_view text) {
  auto const colon = text.find(':');
  auto const digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  for (auto of : methods) {
    if (text.substr(0, colon) != of.name) continue;
    if (colon == std::string_view::npos) return of;
    auto const usual = of.number;
    auto const [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), of.number);
    auto const is_number = error == std::errc{} && end == digits.data() + digits.size();
    auto const are_bits = of.number == 1 || of.number == 2 || of.number == 4 || of.number == 8;
    if (usual > 0 && is_number && of.number >= 1 && of.number <= 65536 &&
        (!of.name.starts_with("qsdp") || are_bits))
      return of;
  }
  throw std::invalid_argument{"--between " + std::string{text} + ": expected " + names_of_methods +
                              ", with a whole number from 1 to 65536; BITS 1, 2, 4 or 8"};
}

}  // namespace between
