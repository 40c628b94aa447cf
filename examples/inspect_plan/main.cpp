// SPDX-License-Identifier: Apache-2.0
// Shows who sends what to whom, and when: inspect_plan --help
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "command_line.hpp"
#include "inspection.hpp"
#include "to_json.hpp"
#include "to_svg.hpp"
#include "to_text.hpp"

namespace {

void run(inspect::options const& asked) {
  auto const plan = inspect::inspect_plan(asked);
  if (!asked.svg.empty()) {
    auto file = std::ofstream{asked.svg};
    file << inspect::to_svg(plan);
    file.close();
    if (!file) throw std::runtime_error{"cannot write " + asked.svg.string()};
  }
  auto const text = asked.json ? inspect::to_json(plan).dump(1) + "\n" : inspect::to_text(plan);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  auto const line = inspect::read_command_line(argc, argv);
  if (line.chosen.has_value()) {
    run(*line.chosen);
  } else {
    std::fputs(line.message.c_str(), line.exit_code == 0 ? stdout : stderr);
  }
  return line.exit_code;
} catch (std::exception const& error) {
  std::fprintf(stderr, "inspect_plan: %s\n", error.what());
  return 1;
}
