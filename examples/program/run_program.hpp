// SPDX-License-Identifier: Apache-2.0
/// What the main functions of programs have in common.
#pragma once

#include <cstdio>
#include <exception>
#include <type_traits>

#include "program/command_line.hpp"

namespace program {

/// How a program signs what it says, and how it ends if it fails.
struct signature {
  char const* name;
  int exit_code_of_failure = 1;
};

/// Runs a program with the options of its command line, or prints the message that it has instead.
/// An exception is printed, too.
/// @param read(argc, argv) a command_line
/// @param run(options) nothing, or the exit code
/// @return the exit code
template <class Read, class Run>
[[nodiscard]] int run_program(signature const& of, int argc, char const* const* argv, Read read,
                              Run run) try {
  auto const line = read(argc, argv);
  if (!line.chosen.has_value()) {
    std::fputs(line.message.c_str(), line.exit_code == 0 ? stdout : stderr);
    return line.exit_code;
  }
  if constexpr (std::is_void_v<decltype(run(*line.chosen))>) {
    run(*line.chosen);
    return line.exit_code;
  } else {
    return run(*line.chosen);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s: %s\n", of.name, error.what());
  return of.exit_code_of_failure;
}

}  // namespace program
