// SPDX-License-Identifier: Apache-2.0
// What one rank does. No other file compiles the trainer.
#include "train_on.hpp"

#include <fstream>
#include <stdexcept>

#include "expert_stream.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "train_mirrored.hpp"
#include "trainer.hpp"

namespace moe_gpt {

run_record train_on(fssdp::communicator_ref tokens, fssdp::communicator_ref experts,
                    rank_job const& job) {
  auto const overlaps = job.chosen.no_overlap ? overlap_rule::off : overlap_rule::on;
  auto comm = expert_stream{experts, overlaps};
  return train_rank<float>(tokens, comm, job);
}

run_record train_mirrored(any_survivable& comm, rank_job const& job) {
  return mirrored_training<float>{comm, job}.run();
}

void write_trace(std::filesystem::path const& file, std::span<fssdp::trace_recorder const> traces) {
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, traces);
  out.close();
  if (!out) throw std::runtime_error{"cannot write " + file.string()};
}

}  // namespace moe_gpt
