// SPDX-License-Identifier: Apache-2.0
/// Files with random changes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "support/dice.hpp"

namespace support {

/// Numbers and brackets, and what is none of that.
inline constexpr auto bytes_of_json = std::string_view{"0123456789-.{}[],:\"\\eu \0\xff", 25};

/// Changes some bytes, cuts some out, doubles some, or puts others in their place: favourites,
/// which keep a file readable more often.
[[nodiscard]] inline std::string mutated_bytes(std::string bytes, dice& draw,
                                               std::string_view favourites = bytes_of_json,
                                               std::size_t from = 0) {
  auto const any = [&] {
    return from + static_cast<std::size_t>(draw.between(
                      0, static_cast<int>(std::max(from + 1, bytes.size()) - from) - 1));
  };
  auto const times = draw.between(1, 4);
  for (int i = 0; i < times && bytes.size() > from; ++i) {
    auto const at = any();
    auto const length = std::min(bytes.size() - at, static_cast<std::size_t>(draw.between(1, 40)));
    switch (draw.between(0, 5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw.between(0, 7)));
        break;
      case 1:
        bytes[at] = favourites[static_cast<std::size_t>(
            draw.between(0, static_cast<int>(favourites.size()) - 1))];
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(any(), bytes.substr(at, length));
        break;
      case 4:
        bytes.replace(at, length, bytes.substr(any(), length));
        break;
      default:
        if (draw.chance(20))
          bytes.resize(at);
        else
          bytes.insert(at, 1, static_cast<char>(draw.between(0, 255)));
    }
  }
  return bytes;
}

}  // namespace support
