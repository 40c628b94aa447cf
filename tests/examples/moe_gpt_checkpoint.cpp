// SPDX-License-Identifier: Apache-2.0
// A run of moe_gpt that goes on from a checkpoint is the run that was never interrupted.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "examples/small_training.hpp"
#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "moe_gpt/command_line.hpp"
#include "moe_gpt/train.hpp"
#include "support/temporary_folder.hpp"

namespace {

using moe_gpt::mode;
using moe_gpt::options;
using moe_gpt::run_record;

/// The figures of a step that do not depend on the clock: what was learned, and what moved.
[[nodiscard]] auto figures(moe_gpt::step_record const& step) {
  return std::tuple{step.step,
                    step.loss,
                    step.load_max_over_mean_ep,
                    step.load_max_over_mean,
                    step.gathered_bytes,
                    step.reduced_bytes,
                    step.moved_bytes};
}
/// How many of the steps after the first `before` differ in a bit.
[[nodiscard]] std::size_t differing(run_record const& whole, run_record const& rest,
                                    std::size_t before) {
  if (whole.steps.size() != before + rest.steps.size()) return ~std::size_t{0};
  auto count = std::size_t{0};
  for (std::size_t i = 0; i < rest.steps.size(); ++i)
    count += figures(whole.steps[before + i]) == figures(rest.steps[i]) ? 0U : 1U;
  return count;
}

[[nodiscard]] std::filesystem::path at_step(support::temporary_folder const& folder, int step) {
  return fssdp::step_folder(folder.path(), static_cast<std::uint64_t>(step));
}

}  // namespace

TEST_CASE("40 steps equal 20 steps, a checkpoint and 20 more, bit for bit") {
  struct variation {
    char const* name;
    void (*change)(options&);
  };
  for (auto const& [name, change] : {
           variation{"fssdp", [](options&) {}},
           variation{"ep on one rank",
                     [](options& o) {
                       o.mode = mode::ep;
                       o.ranks = 1;
                     }},
           variation{"fsdp on 3 ranks, in bf16",
                     [](options& o) {
                       o.mode = mode::fsdp;
                       o.ranks = 3;
                       o.wire = moe_gpt::wire::bf16;
                     }},
           variation{"fsep, rematerialized, in micro-batches",
                     [](options& o) {
                       o.mode = mode::fsep;
                       o.rematerialize = true;
                       o.micro_batches = 3;
                     }},
           variation{"owners that change, 2 nodes",
                     [](options& o) {
                       o.nodes = 2;
                       o.reshard_every = 6;
                     }},
           variation{"owners that change at the step of the checkpoint, loads by average",
                     [](options& o) {
                       o.reshard_every = 5;
                       o.predict = moe_gpt::prediction::average;
                     }},
           variation{"balanced routing, the cheapest replicas, calibrated",
                     [](options& o) {
                       o.solver = moe_gpt::solver::cheapest;
                       o.routing = fssdp::routing_rule::balanced;
                       o.predict = moe_gpt::prediction::average;
                       o.calibrate = true;
                     }},
       }) {
    auto const folder = support::temporary_folder{};
    auto chosen = small_training::settings(40, 5);
    change(chosen);
    CAPTURE(name);
    auto const undisturbed = small_training::train(chosen);
    REQUIRE(undisturbed.steps.back().loss < 0.9 * undisturbed.steps.front().loss);
    chosen.save = folder.path();
    chosen.save_every = 20;
    auto const saving = small_training::train(chosen);
    REQUIRE(differing(undisturbed, saving, 0) == 0);
    REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{20, 40});

    chosen.save.clear();
    chosen.save_every = 0;
    chosen.resume = at_step(folder, 20);
    auto const resumed = small_training::train(chosen);
    REQUIRE(resumed.steps.size() == 20);
    REQUIRE(differing(undisturbed, resumed, 20) == 0);
    REQUIRE(resumed.heldout_loss == undisturbed.heldout_loss);
    REQUIRE(resumed.sample.continuation == undisturbed.sample.continuation);
  }
}

TEST_CASE("a run resumes from each checkpoint, by default from the last one") {
  auto const folder = support::temporary_folder{};
  auto chosen = small_training::settings(40, 5);
  auto const undisturbed = small_training::train(chosen);
  chosen.save = folder.path();
  chosen.save_every = 9;
  (void)small_training::train(chosen);
  for (int step : {18, 27, 36, 40}) std::filesystem::remove_all(at_step(folder, step));
  for (int interruptions = 0; interruptions < 3; ++interruptions) {
    chosen.resume = folder.path();
    auto const before = fssdp::complete_steps(folder.path()).back();
    auto const resumed = small_training::train(chosen);
    REQUIRE(differing(undisturbed, resumed, before) == 0);
    // as if it had been killed after the next checkpoint
    for (auto const step : fssdp::complete_steps(folder.path()))
      if (step > before + 9) std::filesystem::remove_all(fssdp::step_folder(folder.path(), step));
  }
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{9, 18, 27, 36});
}

TEST_CASE("a checkpoint goes on with other ranks, layouts and slices") {
  struct move {
    int from_ranks;
    mode from;
    int to_ranks;
    mode to;
    int reshard_every = 0;
  };
  for (auto const& m :
       {move{2, mode::fssdp, 4, mode::fssdp}, move{4, mode::fssdp, 3, mode::fssdp, 6},
        move{8, mode::fssdp, 1, mode::fssdp}, move{4, mode::fsep, 3, mode::fssdp},
        move{3, mode::ep, 5, mode::fsep}, move{4, mode::fssdp, 4, mode::fsep},
        move{4, mode::fsep, 4, mode::fsdp}, move{9, mode::fssdp, 2, mode::ep, 4}}) {
    CAPTURE(m.from_ranks, m.to_ranks, name_of(m.from), name_of(m.to));
    auto const folder = support::temporary_folder{};
    auto chosen = small_training::settings(40, 5);
    chosen.ranks = m.from_ranks;
    chosen.mode = m.from;
    chosen.save = folder.path();
    chosen.save_every = 20;
    auto const whole = small_training::train(chosen);
    chosen.ranks = m.to_ranks;
    chosen.mode = m.to;
    chosen.reshard_every = m.reshard_every;
    chosen.save.clear();
    chosen.save_every = 0;
    chosen.resume = at_step(folder, 20);
    auto const resumed = small_training::train(chosen);
    REQUIRE(resumed.steps.size() == 20);
    auto worst = std::abs(resumed.heldout_loss / whole.heldout_loss - 1);
    for (std::size_t i = 0; i < 20; ++i)
      worst = std::max(worst, std::abs(resumed.steps[i].loss / whole.steps[20 + i].loss - 1));
    REQUIRE(worst < 1e-4);
  }
}

TEST_CASE("as many checkpoints as --keep says are kept, and a run resumes from them") {
  auto const folder = support::temporary_folder{};
  auto chosen = small_training::settings(40, 5);
  chosen.ranks = 2;
  chosen.steps = 10;
  chosen.save = folder.path();
  chosen.save_every = 2;
  chosen.keep = 3;
  auto const whole = small_training::train(chosen);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{6, 8, 10});

  chosen.resume = at_step(folder, 6);
  chosen.keep = 1;
  auto const resumed = small_training::train(chosen);
  REQUIRE(differing(whole, resumed, 6) == 0);
  REQUIRE(fssdp::complete_steps(folder.path()) == std::vector<std::uint64_t>{10});
}

TEST_CASE("a checkpoint of another run, or a damaged one, is refused") {
  auto const folder = support::temporary_folder{};
  auto chosen = small_training::settings(40, 5);
  chosen.steps = 4;
  chosen.ranks = 2;
  chosen.save = folder.path();
  (void)small_training::train(chosen);
  chosen.save.clear();
  chosen.resume = folder.path();
  REQUIRE_THROWS_WITH(small_training::train(chosen),
                      mentions("it has had 4 steps; expected --steps of more"));
  chosen.steps = 6;
  REQUIRE(small_training::train(chosen).steps.size() == 2);
  auto const refusal = [&](void (*change)(options&)) -> std::string {
    auto other = chosen;
    change(other);
    try {
      (void)small_training::train(other);
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
    return "accepted";
  };
  REQUIRE_THAT(refusal([](options& o) { o.d_model = 32; }), mentions("--d-model 24; expected 32"));
  REQUIRE_THAT(refusal([](options& o) { o.heads = 3; }), mentions("--heads 2; expected 3"));
  REQUIRE_THAT(refusal([](options& o) { o.experts = 9; }), mentions("--experts 8; expected 9"));
  REQUIRE_THAT(refusal([](options& o) { o.layers = 3; }), mentions("--layers 2; expected 3"));
  REQUIRE_THAT(refusal([](options& o) { o.seed = 6; }), mentions("--seed 5; expected 6"));
  auto const other_text = moe_gpt::corpus{std::vector<std::uint8_t>(20000, 'x'),
                                          static_cast<std::size_t>(chosen.seq), chosen.seed, "x"};
  REQUIRE_THROWS_WITH(moe_gpt::train(chosen, other_text, [](moe_gpt::step_record const&) {}),
                      mentions("--text"));
  auto const file = at_step(folder, 4) / "rank_1_of_2.1.safetensors";
  auto bytes = support::bytes_of_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 2);
  support::write_bytes(file, bytes);
  REQUIRE_THROWS_WITH(small_training::train(chosen),
                      mentions(file.string()) && mentions("checksum differs"));
  std::filesystem::remove(at_step(folder, 4) / "checkpoint.json");
  REQUIRE_THROWS_WITH(small_training::train(chosen), mentions("has no complete checkpoint"));
}

TEST_CASE("options that save and resume are read and checked") {
  auto const read = [](std::vector<char const*> words) {
    words.insert(words.begin(), "moe_gpt");
    return moe_gpt::read_command_line(static_cast<int>(words.size()), words.data());
  };
  auto const line = read({"--save", "a", "--save-every", "5", "--keep", "3", "--resume", "b"});
  REQUIRE(line.chosen.has_value());
  REQUIRE(line.chosen->save == "a");
  REQUIRE(line.chosen->save_every == 5);
  REQUIRE(line.chosen->keep == 3);
  REQUIRE(line.chosen->resume == "b");
  REQUIRE_THAT(read({"--save-every", "5"}).message, mentions("expected --save with it"));
  REQUIRE_THAT(read({"--save", "a", "--save-every", "-1"}).message, mentions("expected 0 or more"));
  REQUIRE_THAT(read({"--keep", "5"}).message, mentions("--keep 5: expected --save with it"));
  REQUIRE_THAT(read({"--save", "a", "--keep", "-2"}).message,
               mentions("--keep -2: expected 0 or more"));
  REQUIRE_THAT(read({"--save", "a", "--keep", "two"}).message,
               mentions("--keep") && mentions("a whole number"));
}
