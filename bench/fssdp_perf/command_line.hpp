// SPDX-License-Identifier: Apache-2.0
/// Reads the command line.
#pragma once

#include "options.hpp"
#include "program/command_line.hpp"

namespace perf {

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] program::command_line<options> read_command_line(int argc, char const* const* argv);

}  // namespace perf
