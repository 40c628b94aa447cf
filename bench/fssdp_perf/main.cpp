// SPDX-License-Identifier: Apache-2.0
// Measures the sparse collectives beside what the machine can do: fssdp_perf --help
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "device_ranks.hpp"
#include "gloo_contestant.hpp"
#include "json.hpp"
#include "measure.hpp"
#include "measure_processes.hpp"
#include "program/run_program.hpp"
#include "table.hpp"

namespace {

void print(std::string const& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Measures one thing after the other; prints as it goes if it is this process's task.
std::vector<perf::result> measure_all(perf::options const& of, perf::process_team* team) {
  auto const prints = !of.json && (team == nullptr || team->rank() == fssdp::rank_id{0});
  auto results = std::vector<perf::result>{};
  for (auto const collective : of.collectives)
    for (auto const of_case : of.cases)
      for (auto const bytes : of.bytes) {
        auto const found = perf::measure({collective, of_case, bytes}, of, team);
        if (!found.has_value()) continue;
        if (prints && results.empty()) print(perf::table_head(of));  // at the first result
        if (prints) print(perf::table_line(*found));
        results.push_back(*found);
      }
  if (prints) print(perf::table_foot(results));
  return results;
}

void print_json(std::vector<perf::result> const& results) {
  auto all = nlohmann::ordered_json::array();
  for (auto const& one : results) all.push_back(perf::to_json(one));
  print(all.dump(1) + "\n");
}

/// Before anything runs.
void require_libraries(perf::options const& of) {
  if (perf::needs_gloo(of.baseline)) perf::require_gloo();
  if (of.backend == perf::backend::cuda) perf::require_cuda();
  if (of.backend == perf::backend::nccl) perf::require_nccl(of.ranks);
}

int run(perf::options const& of) {
  require_libraries(of);
  auto const team = perf::needs_processes(of) ? perf::join_processes(of.ranks) : nullptr;
  try {
    auto const results = measure_all(
        of.backend == perf::backend::mpi ? perf::on_this_machine(of, *team) : of, team.get());
    if (of.json && (team == nullptr || team->rank() == fssdp::rank_id{0})) print_json(results);
    return std::ranges::all_of(results, perf::passes) ? 0 : 1;
  } catch (std::exception const& error) {
    if (team == nullptr) throw;
    std::fprintf(stderr, "fssdp_perf: %s\n", error.what());
    team->abort();  // the others would wait for this process
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program({.name = "fssdp_perf",
                               .exit_code_of_failure = 2,
                               .sizes = "expected fewer --bytes, --experts or --ranks"},
                              argc, argv, perf::read_command_line, run);
}
