// SPDX-License-Identifier: Apache-2.0
/// Checks that an argument is a number.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <system_error>

namespace program {

/// Accepts text that is one number of this type from end to end.
template <class Number>
[[nodiscard]] CLI::Validator number_like(std::string expected) {
  return {[expected](std::string const& text) {
            auto value = Number{};
            auto const* const end = text.data() + text.size();
            auto const [stop, error] = std::from_chars(text.data(), end, value);
            return error == std::errc{} && stop == end ? std::string{}
                                                       : text + ": expected " + expected;
          },
          ""};
}

}  // namespace program
