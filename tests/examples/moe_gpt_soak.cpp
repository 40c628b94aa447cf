// SPDX-License-Identifier: Apache-2.0
// A long training with everything that moves experts, beside one in which they stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "moe_gpt/trainer.hpp"
#include "moe_gpt/wire.hpp"
#include "support/resident_pages.hpp"

#ifndef FSSDP_SOAK_STEPS
#define FSSDP_SOAK_STEPS 2000
#endif

namespace {

/// Words that come and go, so that the experts' loads drift.
moe_gpt::corpus drifting_corpus(moe_gpt::options const& chosen) {
  auto bytes = std::vector<std::uint8_t>{};
  for (std::uint64_t i = 0; bytes.size() < 20000; ++i)
    for (std::uint64_t letter = 0; letter < 5; ++letter)
      bytes.push_back(
          static_cast<std::uint8_t>('a' + moe_gpt::mix({i % 7 + i / 400, letter}) % 20));
  return {std::move(bytes), static_cast<std::size_t>(chosen.seq), chosen.seed, "drifting"};
}

constexpr int steps = FSSDP_SOAK_STEPS;

moe_gpt::options long_run() {
  auto chosen = moe_gpt::options{};
  chosen.ranks = 4;
  chosen.experts = 8;
  chosen.layers = 2;
  chosen.d_model = 16;
  chosen.heads = 2;
  chosen.seq = 16;
  chosen.batch = 8;
  chosen.steps = steps;
  chosen.lr = 3e-4;
  chosen.seed = 3;
  chosen.overlap = 4;
  chosen.spare_slots = 2;
  chosen.sample = 0;
  return chosen;
}

/// Trains in double precision. Among half a million tokens, in single, some have two experts that
/// rounding chooses between, and BLAS rounds in its own way on each processor: from such a token
/// on, two trainings part ways, whatever has moved.
moe_gpt::run_record train_exactly(
    moe_gpt::options const& chosen, moe_gpt::corpus const& text,
    std::function<void(moe_gpt::step_record const&)> const& observe = {}) {
  auto result = moe_gpt::run_record{};
  auto world = fssdp::thread_world{chosen.ranks};
  world.run([&](fssdp::thread_communicator& comm) {
    auto experts = comm.duplicate();
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(experts, stream);
    auto record = moe_gpt::train_rank<double>(
        comm, streamed,
        {.chosen = chosen, .text = text, .observe = [&](moe_gpt::step_record const& at) {
           if (observe) observe(at);
         }});
    if (comm.rank() == fssdp::rank_id{0}) result = std::move(record);
  });
  return result;
}

}  // namespace

TEST_CASE("many steps with all features have the losses of plain EP, in constant memory") {
  auto plain = long_run();
  plain.mode = moe_gpt::mode::ep;
  auto const text = drifting_corpus(plain);
  auto const reference = train_exactly(plain, text);

  auto moving = long_run();
  moving.rematerialize = true;
  moving.calibrate = true;
  moving.seconds_per_row = 1;
  moving.reshard_every = steps / 20;
  moving.micro_batches = 2;
  auto pages = std::array<long, 2>{};
  auto const record = train_exactly(moving, text, [&](moe_gpt::step_record const& at) {
    if (at.step == steps / 4) pages[0] = support::resident_pages();
    if (at.step == steps) pages[1] = support::resident_pages();
  });

  auto furthest = 0.0;
  auto moved = 0;
  auto calibrated = 0;
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    furthest = std::max(furthest, std::abs(record.steps[i].loss / reference.steps[i].loss - 1));
    moved += record.steps[i].moved_bytes > 0 ? 1 : 0;
    calibrated += record.steps[i].experts.calibrations_accepted;
  }
  CHECK(furthest < 1e-6);
  CHECK(record.steps.back().loss < 0.7 * record.steps.front().loss);
  CHECK(moved > steps / 600);
  CHECK(calibrated > steps / 20);
  CHECK(pages[1] <= pages[0] + 1024);  // four megabytes: the report grows by a megabyte
}
