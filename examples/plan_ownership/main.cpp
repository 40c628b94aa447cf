// SPDX-License-Identifier: Apache-2.0
// Chooses owners for items of any size, JSON in and JSON out: plan_ownership --help
#include <cstdio>
#include <stdexcept>

#include "command_line.hpp"
#include "fssdp/core/error.hpp"
#include "program/run_program.hpp"
#include "read_question.hpp"
#include "to_json.hpp"
#include "with_names.hpp"

namespace {

[[nodiscard]] fssdp::ownership_plan solve(ownership::question const& of) try {
  return of.planner(of.items, of.topo, of.constraints, of.before);
} catch (fssdp::argument_error const& error) {
  throw std::runtime_error{ownership::with_names(error.what(), of.names)};
}

void run(ownership::options const& asked) {
  auto const question = ownership::read_question(asked.question);
  auto const answer = ownership::to_json(question, solve(question));
  std::puts(answer.dump(asked.compact ? -1 : 1, ' ', true).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program(
      {.name = "plan_ownership", .sizes = "expected a question of fewer items or ranks"}, argc,
      argv, ownership::read_command_line, run);
}
