// SPDX-License-Identifier: Apache-2.0
// Shows what ranks did, and when: draw_trace --help
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "command_line.hpp"
#include "read_trace.hpp"
#include "to_svg.hpp"
#include "view.hpp"

namespace {

void run(draw::options const& asked) {
  auto const picture = draw::to_svg(draw::select(draw::read_trace(asked.trace), asked));
  if (asked.svg.empty()) {
    std::fputs(picture.c_str(), stdout);
    return;
  }
  auto file = std::ofstream{asked.svg};
  file << picture;
  file.close();
  if (!file) throw std::runtime_error{"cannot write " + asked.svg.string()};
}

}  // namespace

int main(int argc, char** argv) try {
  auto const line = draw::read_command_line(argc, argv);
  if (line.chosen.has_value()) {
    run(*line.chosen);
  } else {
    std::fputs(line.message.c_str(), line.exit_code == 0 ? stdout : stderr);
  }
  return line.exit_code;
} catch (std::exception const& error) {
  std::fprintf(stderr, "draw_trace: %s\n", error.what());
  return 1;
}
