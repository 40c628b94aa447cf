// SPDX-License-Identifier: Apache-2.0
// Shows what ranks did, and when: draw_trace --help
#include <cstdio>

#include "command_line.hpp"
#include "program/run_program.hpp"
#include "program/write_file.hpp"
#include "read_trace.hpp"
#include "to_svg.hpp"
#include "view.hpp"

namespace {

void run(draw::options const& asked) {
  auto const picture = draw::to_svg(draw::select(draw::read_trace(asked.trace), asked));
  if (asked.svg.empty())
    std::fputs(picture.c_str(), stdout);
  else
    program::write_file(asked.svg, picture);
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program({.name = "draw_trace"}, argc, argv, draw::read_command_line, run);
}
