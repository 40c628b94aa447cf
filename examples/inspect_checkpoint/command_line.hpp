// SPDX-License-Identifier: Apache-2.0
/// The command line of inspect_checkpoint.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "help.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"

namespace stored {

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  auto chosen = options{};
  auto folder = std::string{};
  auto app = CLI::App{detail::description, "inspect_checkpoint"};
  app.get_formatter()->column_width(26);
  app.footer(detail::footer);
  app.add_option("FOLDER", folder, "A folder, or one file: see below")
      ->check(program::not_empty("a folder"))
      ->type_name("")
      ->required();
  app.add_flag("--headers-only", chosen.headers_only, "Read headers only, and verify no checksums");
  app.add_flag("--json", chosen.json, "Print JSON instead of text");
  return program::parse_arguments(app, argc, argv, chosen, [&] { chosen.folder = folder; });
}

}  // namespace stored
