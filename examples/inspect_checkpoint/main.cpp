// SPDX-License-Identifier: Apache-2.0
// Shows what a folder of experts holds, and whether it is whole: inspect_checkpoint --help
#include <cstdio>

#include "command_line.hpp"
#include "inspect_folder.hpp"
#include "program/run_program.hpp"
#include "to_json.hpp"
#include "to_text.hpp"

namespace {

[[nodiscard]] int run(stored::options const& asked) {
  auto const shown = stored::inspect_folder(asked);
  auto const text = asked.json ? stored::to_json(shown).dump(
                                     1, ' ', false, nlohmann::json::error_handler_t::replace) +
                                     "\n"
                               : stored::to_text(shown, asked.headers_only);
  std::fputs(text.c_str(), stdout);
  return shown.problems.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program(
      {.name = "inspect_checkpoint", .sizes = "expected files with shorter headers"}, argc, argv,
      stored::read_command_line, run);
}
