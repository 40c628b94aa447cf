// SPDX-License-Identifier: Apache-2.0
/// The options of fssdp_step.
#pragma once

#include "options.hpp"
#include "program/command_line.hpp"

namespace step {

[[nodiscard]] program::command_line<options> read_command_line(int argc, char const* const* argv);

}  // namespace step
