// SPDX-License-Identifier: Apache-2.0
/// Reads the command line.
#pragma once

#include <optional>
#include <string>

#include "options.hpp"

namespace perf {

/// What a command line comes to: options, or a message to print before leaving.
struct command_line {
  std::optional<options> chosen = {};
  std::string message = {};
  int exit_code = 0;  ///< 0: the message is the help that was asked for
};

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] command_line read_command_line(int argc, char const* const* argv);

}  // namespace perf
