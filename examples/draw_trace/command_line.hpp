// SPDX-License-Identifier: Apache-2.0
/// The command line of draw_trace.
#pragma once

#include <CLI/CLI.hpp>

#include "help.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"

namespace draw {

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  auto chosen = options{};
  auto app = CLI::App{detail::about, "draw_trace"};
  app.get_formatter()->column_width(26);
  app.footer(detail::footer);
  app.add_option("TRACE", chosen.trace, "The file of the trace")->required()->type_name("FILE");
  app.add_option("--svg", chosen.svg, "The file of the picture; by default the standard output")
      ->check(program::not_empty("a file"))
      ->type_name("FILE");
  app.add_option("--from", chosen.from, "Start of the picture; by default that of the first range")
      ->type_name("MS");
  app.add_option("--to", chosen.to, "End of the picture; by default that of the last range")
      ->type_name("MS");
  app.add_option("--ranks", chosen.ranks, "Ranks to draw; by default all")
      ->delimiter(',')
      ->type_name("N,N");
  app.add_option("--title", chosen.title, "Title of the picture; by default the name of the file")
      ->type_name("TEXT");
  return program::parse_arguments(app, argc, argv, chosen, [&] { validate(chosen); });
}

}  // namespace draw
