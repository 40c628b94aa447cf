// SPDX-License-Identifier: Apache-2.0
/// The command line of fssdp_sim.
#pragma once

#include "options.hpp"
#include "program/command_line.hpp"

namespace sim {

/// Reads and validates the arguments; prints nothing, and opens no file.
[[nodiscard]] program::command_line<options> read_command_line(int argc, char const* const* argv);

}  // namespace sim
