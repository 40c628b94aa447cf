// SPDX-License-Identifier: Apache-2.0
/// The command line of moe_gpt.
#pragma once

#include "options.hpp"
#include "program/command_line.hpp"

namespace moe_gpt {

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] program::command_line<options> read_command_line(int argc, char const* const* argv);

}  // namespace moe_gpt
