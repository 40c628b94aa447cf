// SPDX-License-Identifier: Apache-2.0
/// The command line of draw_trace.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <optional>
#include <string>

#include "help.hpp"
#include "options.hpp"

namespace draw {

/// What a command line comes to: options, or a message to print before leaving.
struct command_line {
  std::optional<options> chosen = {};
  std::string message = {};
  int exit_code = 0;  ///< 0: the message is the help that was asked for
};

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline command_line read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto app = CLI::App{detail::about, "draw_trace"};
  app.get_formatter()->column_width(26);
  app.footer(detail::footer);
  app.add_option("TRACE", chosen.trace, "The file of the trace")->required()->type_name("FILE");
  app.add_option("--svg", chosen.svg, "The picture; without it: the standard output")
      ->type_name("FILE");
  app.add_option("--from", chosen.from, "Where the picture begins; without it: the first begin")
      ->type_name("MS");
  app.add_option("--to", chosen.to, "Where it ends; without it: the last end")->type_name("MS");
  app.add_option("--ranks", chosen.ranks, "The ranks that are drawn; without it: all")
      ->delimiter(',')
      ->type_name("N,N");
  app.add_option("--title", chosen.title, "What stands above; without it: the name of the file")
      ->type_name("TEXT");
  try {
    app.parse(argc, argv);
    validate(chosen);
  } catch (CLI::CallForHelp const&) {
    return {.message = app.help()};
  } catch (std::exception const& error) {
    return {.message = std::string{"draw_trace: "} + error.what() +
                       "\ndraw_trace --help explains the options.\n",
            .exit_code = 2};
  }
  return {.chosen = chosen};
}

}  // namespace draw
