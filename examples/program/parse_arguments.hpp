// SPDX-License-Identifier: Apache-2.0
/// From arguments to options, by CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "program/command_line.hpp"

namespace program {

/// Parses the arguments with an app that writes into `chosen`; prints nothing.
/// @param accept() takes over what the app wrote elsewhere, and throws where options do not fit
template <class Options, class Accept>
[[nodiscard]] command_line<Options> parse_arguments(CLI::App& app, int argc,
                                                    char const* const* argv, Options const& chosen,
                                                    Accept accept) {
  try {
    app.parse(argc, argv);
    accept();
  } catch (CLI::CallForHelp const&) {
    return {.message = app.help()};
  } catch (std::exception const& error) {
    auto const name = app.get_name();
    return {.message = name + ": " + error.what() + "\n" + name + " --help explains the options.\n",
            .exit_code = 2};
  }
  return {.chosen = chosen};
}

}  // namespace program
