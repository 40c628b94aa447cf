// SPDX-License-Identifier: Apache-2.0
// Trains a small mixture-of-experts language model with fssdp: moe_gpt --help
#include <cstdio>
#include <exception>
#include <string>

#include "command_line.hpp"
#include "matmul.hpp"
#include "progress.hpp"
#include "summary.hpp"
#include "text.hpp"
#include "train.hpp"
#include "write_json.hpp"

namespace {

void run(moe_gpt::options const& chosen) {
  auto const text = moe_gpt::load_corpus(chosen.text, MOE_GPT_DEFAULT_TEXT,
                                         moe_gpt::shape_of(chosen).seq, chosen.seed);
  auto const record = [&] {
    auto bar = moe_gpt::progress{chosen.steps, moe_gpt::style_for(stdout, chosen.quiet), stdout};
    return moe_gpt::train(chosen, text, [&](moe_gpt::step_record const& step) { bar.show(step); });
  }();
  if (!chosen.json.empty()) moe_gpt::write_json(chosen, record);
  if (chosen.quiet) return;
  std::fputs(("\n" + moe_gpt::summary_table(chosen, record)).c_str(), stdout);
  std::fputs(moe_gpt::sample_text(record.sample).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  moe_gpt::single_threaded_blas();  // every rank is a thread already
  auto const line = moe_gpt::read_command_line(argc, argv);
  if (line.chosen.has_value()) {
    run(*line.chosen);
  } else {
    std::fputs(line.message.c_str(), line.exit_code == 0 ? stdout : stderr);
  }
  return line.exit_code;
} catch (std::exception const& error) {
  std::fprintf(stderr, "moe_gpt: %s\n", error.what());
  return 1;
}
