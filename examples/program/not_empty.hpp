// SPDX-License-Identifier: Apache-2.0
/// Checks that an argument is not empty.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace program {

/// Accepts all text but "", which would count as if the option had not been given.
[[nodiscard]] inline CLI::Validator not_empty(std::string expected) {
  return {[expected](std::string const& text) {
            return text.empty() ? "'': expected " + expected : std::string{};
          },
          ""};
}

}  // namespace program
