// SPDX-License-Identifier: Apache-2.0
/// The command line of plan_ownership.
#pragma once

#include <CLI/CLI.hpp>

#include "help.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"

namespace ownership {

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  auto chosen = options{};
  auto app = CLI::App{detail::about, "plan_ownership"};
  app.get_formatter()->column_width(26);
  app.footer(detail::footer);
  app.add_option("QUESTION", chosen.question, "The file with the question; -: standard input")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("--compact", chosen.compact, "Print the answer on one line");
  return program::parse_arguments(app, argc, argv, chosen, [] {});
}

}  // namespace ownership
