// SPDX-License-Identifier: Apache-2.0
// Trains a small mixture-of-experts language model with fssdp: moe_gpt --help
#include <cstdio>
#include <string>

#include "blas.hpp"
#include "command_line.hpp"
#include "program/run_program.hpp"
#include "progress.hpp"
#include "rank_world.hpp"
#include "summary.hpp"
#include "text.hpp"
#include "write_json.hpp"

namespace {

void run(moe_gpt::options const& asked) {
  auto const text = moe_gpt::load_corpus(asked.text, MOE_GPT_DEFAULT_TEXT,
                                         moe_gpt::shape_of(asked).seq, asked.seed);
  auto const world = moe_gpt::join_world(asked);  // last: what fails before leaves no rank waiting
  auto const& chosen = world->chosen();
  if (world->has_rank_0() && !chosen.quiet) {
    std::printf("Matrix products: %s\n", moe_gpt::products_by().c_str());
    std::fflush(stdout);
  }
  auto const record = [&] {
    auto bar = moe_gpt::progress{chosen.steps, moe_gpt::style_for(stdout, chosen.quiet), stdout};
    return world->train(text, [&](moe_gpt::step_record const& step) { bar.show(step); });
  }();
  if (!world->has_rank_0()) return;
  if (!chosen.json.empty()) moe_gpt::write_json(chosen, record);
  if (chosen.quiet) return;
  std::fputs(("\n" + moe_gpt::summary_table(chosen, record)).c_str(), stdout);
  if (chosen.sample > 0) std::fputs(moe_gpt::sample_text(record.sample).c_str(), stdout);
  std::fflush(stdout);  // MPI_Finalize may take long when ranks have been lost
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program(
      {.name = "moe_gpt",
       .sizes = "expected smaller --d-model, --experts, --layers, --seq or --batch"},
      argc, argv, moe_gpt::read_command_line, run);
}
