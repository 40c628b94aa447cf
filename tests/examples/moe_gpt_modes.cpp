// SPDX-License-Identifier: Apache-2.0
// A run of moe_gpt means the same in every mode, on any number of ranks and nodes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/train.hpp"

namespace {

using moe_gpt::mode;
using moe_gpt::options;

/// A small text with some order in it.
moe_gpt::corpus small_corpus(std::size_t seq, std::uint64_t seed) {
  auto bytes = std::vector<std::uint8_t>{};
  auto const words = std::vector<std::string>{"owner ", "replica ", "placement ", "plan ",
                                              "batch ", "gate ",    "expert.\n"};
  for (std::uint64_t i = 0; bytes.size() < 20000; ++i) {
    auto const& word = words[moe_gpt::mix({i / 3}) % words.size()];
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  return {std::move(bytes), seq, seed, "small"};
}

options small_run() {
  auto chosen = options{};
  chosen.ranks = 4;
  chosen.nodes = 1;
  chosen.experts = 8;
  chosen.layers = 2;
  chosen.d_model = 32;
  chosen.heads = 2;
  chosen.seq = 24;
  chosen.batch = 7;  // does not divide by the ranks
  chosen.steps = 20;
  chosen.lr = 3e-3;
  chosen.seed = 11;
  chosen.overlap = 4;
  chosen.spare_slots = 2;
  chosen.sample = 16;
  return chosen;
}

moe_gpt::run_record run(options const& chosen) {
  auto const text = small_corpus(static_cast<std::size_t>(chosen.seq), chosen.seed);
  return moe_gpt::train(chosen, text, [](moe_gpt::step_record const&) {});
}

double furthest_apart(moe_gpt::run_record const& a, moe_gpt::run_record const& b) {
  auto worst = std::abs(a.heldout_loss / b.heldout_loss - 1);
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    worst = std::max(worst, std::abs(a.steps[i].loss / b.steps[i].loss - 1));
  return worst;
}

}  // namespace

TEST_CASE("20 losses agree between one rank and every mode, ranks, nodes, m and t") {
  auto alone = small_run();
  alone.ranks = 1;
  auto const reference = run(alone);
  REQUIRE(reference.steps.size() == 20);
  CHECK(reference.steps.back().loss < 0.8 * reference.steps.front().loss);

  struct variation {
    mode how;
    int ranks, nodes, overlap, spare_slots;
    int reshard_every = 0;
    moe_gpt::solver solver = moe_gpt::solver::paper;
    fssdp::routing_rule routing = fssdp::routing_rule::even;
    moe_gpt::prediction predict = moe_gpt::prediction::mean;
  };
  using moe_gpt::solver;
  using enum fssdp::routing_rule;
  using enum moe_gpt::prediction;
  for (auto const& v :
       {variation{mode::ep, 4, 1, 0, 0},
        variation{mode::fsdp, 4, 1, 0, 0},
        variation{mode::fsdp, 4, 2, 0, 0},
        variation{mode::fssdp, 4, 1, 4, 2},
        variation{mode::fssdp, 4, 2, 3, 1},
        variation{mode::fssdp, 4, 4, 3, 3},
        variation{mode::fssdp, 3, 2, 5, 2},
        variation{mode::fssdp, 9, 3, 6, 1},
        variation{mode::fssdp, 4, 2, 0, 0},
        variation{mode::fssdp, 4, 2, 8, 8},
        variation{mode::fsep, 4, 1, 4, 2},
        variation{mode::fsep, 4, 2, 3, 1},
        variation{mode::fsep, 3, 1, 0, 0},
        variation{mode::fssdp, 4, 2, 4, 2, 5},
        variation{mode::fssdp, 3, 1, 2, 1, 5},
        variation{mode::ep, 4, 2, 0, 0, 5},
        variation{mode::fsdp, 3, 3, 0, 0, 5},
        variation{mode::fssdp, 4, 2, 3, 2, 0, solver::cheapest, even, mean},
        variation{mode::fssdp, 4, 2, 4, 2, 5, solver::cheapest, balanced, average},
        variation{mode::fssdp, 3, 1, 4, 2, 5, solver::paper, balanced, mean},
        variation{mode::fsep, 4, 2, 4, 2, 0, solver::cheapest, balanced, average}}) {
    auto chosen = small_run();
    chosen.mode = v.how;
    chosen.ranks = v.ranks;
    chosen.nodes = v.nodes;
    chosen.overlap = v.overlap;
    chosen.spare_slots = v.spare_slots;
    chosen.reshard_every = v.reshard_every;
    chosen.solver = v.solver;
    chosen.routing = v.routing;
    chosen.predict = v.predict;
    CAPTURE(name_of(v.how), v.ranks, v.nodes, v.overlap, v.spare_slots, v.reshard_every);
    CAPTURE(name_of(v.solver), moe_gpt::name_of(v.routing), name_of(v.predict));
    auto const record = run(chosen);
    CHECK(furthest_apart(record, reference) < 1e-4);
    auto const moved = std::ranges::count_if(
        record.steps, [](moe_gpt::step_record const& step) { return step.moved_bytes > 0; });
    CHECK((moved > 0) == (v.reshard_every > 0 && v.how != mode::fsdp));  // all hold all: no gain
  }
}

TEST_CASE("no bit depends on when plans are made, and kept placements change the rounding only") {
  auto chosen = small_run();
  chosen.nodes = 2;
  for (auto const solver : {moe_gpt::solver::paper, moe_gpt::solver::cheapest})
    for (auto const calibrate : {false, true}) {
      CAPTURE(name_of(solver), calibrate);
      chosen.solver = solver;
      chosen.calibrate = calibrate;
      chosen.plan_ahead = false;
      chosen.load_tolerance = 0;
      auto const reference = run(chosen);
      chosen.plan_ahead = true;
      auto const ahead = run(chosen);
      CHECK(ahead.heldout_loss == reference.heldout_loss);
      CHECK(furthest_apart(ahead, reference) == 0);
      chosen.load_tolerance = 0.05;
      auto const kept = run(chosen);
      CHECK(furthest_apart(kept, reference) < 1e-6);
      if (!calibrate) {
        chosen.share_plans = true;
        auto const kept_and_shared = run(chosen);
        CHECK(kept_and_shared.heldout_loss == kept.heldout_loss);
        CHECK(furthest_apart(kept_and_shared, kept) == 0);
        chosen.load_tolerance = 0;
        auto const shared = run(chosen);
        CHECK(shared.heldout_loss == reference.heldout_loss);
        CHECK(furthest_apart(shared, reference) == 0);
      }
      chosen.share_plans = false;
      chosen.load_tolerance = 0.05;
      chosen.plan_ahead = false;
      auto const kept_too = run(chosen);
      CHECK(kept_too.heldout_loss == kept.heldout_loss);
      CHECK(furthest_apart(kept_too, kept) == 0);
    }
}

TEST_CASE("the auxiliary loss means the same on any number of ranks") {
  auto alone = small_run();
  alone.aux_loss = 0.1;
  auto together = alone;
  alone.ranks = 1;
  auto const reference = run(alone);
  CHECK(furthest_apart(run(together), reference) < 1e-4);
  CHECK(furthest_apart(run(small_run()), reference) > 1e-4);  // it does something
}

TEST_CASE("the same run repeats bit for bit") {
  auto const first = run(small_run());
  auto const second = run(small_run());
  CHECK(first.heldout_loss == second.heldout_loss);
  CHECK(first.sample.continuation == second.sample.continuation);
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    CHECK(first.steps[i].loss == second.steps[i].loss);
    CHECK(first.steps[i].gathered_bytes == second.steps[i].gathered_bytes);
  }
}

TEST_CASE("overlap, re-materialization and prefetching change no loss by a bit") {
  auto plain = small_run();
  plain.no_overlap = true;
  plain.prefetch = 0;
  auto const reference = run(plain);
  auto const losses = [](moe_gpt::run_record const& record) {
    auto all = std::vector{record.heldout_loss};
    for (auto const& step : record.steps) all.push_back(step.loss);
    return all;
  };
  for (auto const overlaps : {false, true})
    for (auto const rematerialize : {false, true})
      for (int prefetch = 1; prefetch <= 3; ++prefetch) {
        auto chosen = small_run();
        chosen.no_overlap = !overlaps;
        chosen.rematerialize = rematerialize;
        chosen.prefetch = prefetch;
        CAPTURE(overlaps, rematerialize, prefetch);
        auto const record = run(chosen);
        CHECK(losses(record) == losses(reference));
        CHECK(record.steps.back().experts.placements_shrunk == 0);
        CHECK((record.steps.back().gathered_bytes > reference.steps.back().gathered_bytes) ==
              rematerialize);
      }
}

TEST_CASE("micro-batches, calibration, little memory and throttled links mean the same model") {
  auto const reference = run(small_run());
  auto const agrees = [&](char const* what, auto change) {
    auto chosen = small_run();
    change(chosen);
    CAPTURE(what);
    auto const record = run(chosen);
    CHECK(furthest_apart(record, reference) < 1e-4);
    return record;
  };
  agrees("micro-batches", [](options& o) { o.micro_batches = 3; });
  agrees("micro-batches, gathered again", [](options& o) {
    o.micro_batches = 7;
    o.rematerialize = true;
  });
  auto const calibrated = agrees("calibration", [](options& o) {
    o.calibrate = true;
    o.seconds_per_row = 1;
  });
  auto accepted = 0;
  for (auto const& step : calibrated.steps) accepted += step.experts.calibrations_accepted;
  CHECK(accepted > 0);
  auto const short_of_memory = agrees("little memory", [](options& o) { o.replica_slots = 1; });
  CHECK(short_of_memory.steps.back().experts.placements_shrunk > 0);
  CHECK(short_of_memory.steps.back().experts.replica_slots_peak == 1);
  agrees("throttled", [](options& o) {
    o.rate = 1e9;
    o.nodes = 2;
    o.steps = 20;
  });
}

TEST_CASE("a 16-bit wire halves the bytes and keeps the losses to two percent") {
  auto chosen = small_run();
  auto const how = GENERATE(mode::fsdp, mode::fsep);
  chosen.mode = how;
  chosen.spare_slots = chosen.overlap;  // so that it does not depend on the loads what is gathered
  auto const full = run(chosen);
  for (auto const type : {moe_gpt::wire::bf16, moe_gpt::wire::fp16}) {
    chosen.wire = type;
    auto const half = run(chosen);
    CAPTURE(static_cast<int>(how), static_cast<int>(type));
    CHECK(furthest_apart(half, full) < 2e-2);
    CHECK(furthest_apart(half, full) > 0);
    CHECK(2 * half.steps.back().gathered_bytes == full.steps.back().gathered_bytes);
    CHECK(2 * half.steps.back().reduced_bytes == full.steps.back().reduced_bytes);
  }
}

TEST_CASE("the modes move as many bytes as their options say") {
  auto chosen = small_run();
  chosen.steps = 2;
  auto const expert_bytes = std::uint64_t{(2 * 32 * 64 + 32 + 64) * sizeof(float)};
  auto const experts = std::uint64_t{8 * 2};  // of both layers
  chosen.mode = mode::ep;
  auto const ep = run(chosen).steps.back();
  CHECK(ep.gathered_bytes == 0);
  CHECK(ep.reduced_bytes == 0);
  CHECK(ep.load_max_over_mean == ep.load_max_over_mean_ep);
  chosen.mode = mode::fsdp;
  auto const fsdp = run(chosen).steps.back();
  CHECK(fsdp.gathered_bytes == experts * 3 * expert_bytes);
  CHECK(fsdp.reduced_bytes == experts * 3 * expert_bytes);
  chosen.mode = mode::fssdp;
  auto const fssdp = run(chosen).steps.back();
  CHECK(fssdp.gathered_bytes > 0);
  CHECK(fssdp.gathered_bytes <= std::uint64_t{2 * 4 * 2} * expert_bytes);  // layers * ranks * m
  CHECK(fssdp.gathered_bytes == fssdp.reduced_bytes);
}
