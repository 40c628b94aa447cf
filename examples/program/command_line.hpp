// SPDX-License-Identifier: Apache-2.0
/// The result of reading a program's arguments.
#pragma once

#include <optional>
#include <string>

namespace program {

/// The result of reading a command line: options, or a message to print before leaving.
template <class Options>
struct command_line {
  std::optional<Options> chosen = {};
  std::string message = {};
  int exit_code = 0;  ///< 0: the message is the help that was asked for
};

}  // namespace program
