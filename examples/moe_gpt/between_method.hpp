// SPDX-License-Identifier: Apache-2.0
/// What --between says.
#pragma once

#include <array>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moe_gpt {

/// A method by its name, and the number that it may take.
struct between_method {
  std::string_view name;
  int number;  ///< 0: it takes none
};
inline constexpr auto between_methods = std::array<between_method, 11>{{{"full", 0},
                                                                        {"bf16", 0},
                                                                        {"int8", 0},
                                                                        {"demo", 4},
                                                                        {"demo-2d", 32},
                                                                        {"striding", 16},
                                                                        {"random", 16},
                                                                        {"terngrad", 0},
                                                                        {"powersgd", 4},
                                                                        {"qsdp", 8},
                                                                        {"tagc", 20}}};

/// @throws std::invalid_argument that names what was expected
[[nodiscard]] inline between_method between_method_of(std::string_view text) {
  auto const colon = text.find(':');
  auto const digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  for (auto method : between_methods) {
    if (text.substr(0, colon) != method.name) continue;
    if (colon == std::string_view::npos) return method;
    auto const usual = method.number;
    auto const [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), method.number);
    if (usual > 0 && error == std::errc{} && end == digits.data() + digits.size() &&
        method.number >= 1 && method.number <= 65536)
      return method;
  }
  throw std::invalid_argument{
      "--between " + std::string{text} +
      ": expected full, bf16, int8, demo[:KEPT], demo-2d[:KEPT], striding[:N], random[:N], "
      "terngrad, powersgd[:RANK], qsdp[:BITS] or tagc[:N], with a whole number from 1 to 65536"};
}

}  // namespace moe_gpt
