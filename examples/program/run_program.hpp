// SPDX-License-Identifier: Apache-2.0
/// What the main functions of programs have in common.
#pragma once

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "program/command_line.hpp"
#include "program/standard_output.hpp"

namespace program {

/// How a program signs what it says, and how it ends if it fails.
struct signature {
  char const* name;
  int exit_code_of_failure = 1;
  char const* sizes = "expected options that ask for less";  ///< what its memory depends on
};

/// Runs a program with the options of its command line, or prints the message that it has instead.
/// An exception is printed, too.
/// @param read(argc, argv) a command_line
/// @param run(options) nothing, or the exit code
/// @return the exit code: that of `run`, or 1 if standard output has not taken what was printed
template <class Read, class Run>
[[nodiscard]] int run_program(signature const& of, int argc, char const* const* argv, Read read,
                              Run run) try {
  auto const line = read(argc, argv);
  auto const code = [&] {
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
  }();
  return output_was_taken(of.name) || code != 0 ? code : 1;
} catch (std::bad_alloc const&) {
  std::fprintf(stderr, "%s: out of memory: %s\n", of.name, of.sizes);
  return of.exit_code_of_failure;
} catch (std::length_error const&) {  // larger than any memory can be
  std::fprintf(stderr, "%s: out of memory: %s\n", of.name, of.sizes);
  return of.exit_code_of_failure;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s: %s\n", of.name, error.what());
  return of.exit_code_of_failure;
}

}  // namespace program
