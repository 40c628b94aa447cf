// SPDX-License-Identifier: Apache-2.0
// Shows who sends what to whom, and when: inspect_plan --help
#include <cstdio>

#include "command_line.hpp"
#include "inspection.hpp"
#include "program/run_program.hpp"
#include "program/write_file.hpp"
#include "to_json.hpp"
#include "to_svg.hpp"
#include "to_text.hpp"

namespace {

void run(inspect::options const& asked) {
  auto const plan = inspect::inspect_plan(asked);
  if (!asked.svg.empty()) program::write_file(asked.svg, inspect::to_svg(plan));
  auto const text = asked.json ? inspect::to_json(plan).dump(1) + "\n" : inspect::to_text(plan);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program(
      {.name = "inspect_plan",
       .sizes = "expected fewer --experts or --ranks, or --piece-bytes of more"},
      argc, argv, inspect::read_command_line, run);
}
