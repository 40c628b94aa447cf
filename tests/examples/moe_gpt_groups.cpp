// SPDX-License-Identifier: Apache-2.0
// Groups of ranks: exchanges between them change the losses as much as they should, or not at all.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/train.hpp"
#include "small_training.hpp"
#include "support/temporary_folder.hpp"

namespace {

using moe_gpt::options;

[[nodiscard]] options in_groups(int groups, std::string const& between) {
  auto chosen = small_training::settings(8, 3);
  chosen.ranks = 4;
  chosen.batch = 8;
  chosen.groups = groups;
  chosen.between = between;
  return chosen;
}
[[nodiscard]] double distance(moe_gpt::run_record const& a, moe_gpt::run_record const& b) {
  auto worst = std::abs(a.heldout_loss / b.heldout_loss - 1);
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    worst = std::max(worst, std::abs(a.steps[i].loss / b.steps[i].loss - 1));
  return worst;
}
[[nodiscard]] std::uint64_t bytes_between(moe_gpt::run_record const& record) {
  auto sum = std::uint64_t{0};
  for (auto const& step : record.steps) sum += step.between_bytes;
  return sum;
}

}  // namespace

TEST_CASE("groups that exchange full gradients train as one group does") {
  auto const alone = small_training::train(in_groups(1, "full"));
  CHECK(bytes_between(alone) == 0);
  for (auto const mode : {moe_gpt::mode::fssdp, moe_gpt::mode::fsep})
    for (int groups : {2, 4}) {
      CAPTURE(groups, name_of(mode));
      auto chosen = in_groups(groups, "full");
      chosen.mode = mode;
      auto const record = small_training::train(chosen);
      CHECK(distance(record, alone) < 1e-5);
      CHECK(bytes_between(record) > 0);
    }
}

TEST_CASE("owners change alike in all groups, and the state of exchanges moves with them") {
  for (std::string const method : {"full", "demo", "powersgd:2"})
    for (int sync_every : {0, 2}) {
      CAPTURE(method, sync_every);
      auto chosen = in_groups(2, method);
      chosen.sync_every = sync_every;
      auto const stays = small_training::train(chosen);
      chosen.reshard_every = 2;
      auto const moves = small_training::train(chosen);
      CHECK(distance(moves, stays) < 1e-4);
      auto moved = std::uint64_t{0};
      for (auto const& step : moves.steps) moved += step.moved_bytes;
      CHECK(moved > 0);
    }
}

TEST_CASE("a run of groups that is resumed goes on with the same bits") {
  struct variant {
    char const* between;
    int sync_every = 0;
    moe_gpt::outer outer = moe_gpt::outer::average;
    moe_gpt::mode mode = moe_gpt::mode::fssdp;
    int fragments = 1;
    int adapt_every = 0;
  };
  for (auto const& v :
       {variant{"demo"}, variant{"powersgd:2"},
        variant{"int8", 0, moe_gpt::outer::average, moe_gpt::mode::fsep},
        variant{"int8", 3, moe_gpt::outer::diloco}, variant{"qsdp-shift:4", 3},
        variant{"full", 3, moe_gpt::outer::co2},
        variant{"full", 2, moe_gpt::outer::diloco, moe_gpt::mode::fssdp, 2},
        variant{"powersgd:2", 0, moe_gpt::outer::average, moe_gpt::mode::fssdp, 1, 3}}) {
    CAPTURE(v.between, v.sync_every, name_of(v.mode), name_of(v.outer));
    auto const folder = support::temporary_folder{};
    auto chosen = in_groups(2, v.between);
    chosen.mode = v.mode;
    chosen.sync_every = v.sync_every;
    chosen.outer = v.outer;
    chosen.fragments = v.fragments;
    chosen.adapt_every = v.adapt_every;
    auto const whole = small_training::train(chosen);
    chosen.save = folder.path() / "run";
    chosen.save_every = 4;  // in the middle of a round
    chosen.keep = 2;
    auto const first = small_training::train(chosen);
    CHECK(first.heldout_loss == whole.heldout_loss);
    auto resumed = chosen;
    resumed.save.clear();
    resumed.save_every = 0;
    resumed.keep = 0;
    std::filesystem::remove_all(chosen.save / "group_0" / "step_00000008");
    std::filesystem::remove_all(chosen.save / "group_1" / "step_00000008");
    resumed.resume = chosen.save;
    auto const second = small_training::train(resumed);
    CHECK(second.steps.size() == 4);
    CHECK(second.heldout_loss == whole.heldout_loss);
    resumed.between = "terngrad";
    resumed.adapt_every = 0;
    CHECK_THROWS_AS(small_training::train(resumed), std::invalid_argument);
  }
}

TEST_CASE("every method trains, and sends fewer bytes between groups") {
  auto const full = small_training::train(in_groups(2, "full"));
  for (std::string const method : {"int8", "demo", "demo-2d", "striding:4", "random:4", "terngrad",
                                   "powersgd:1", "qsdp:4", "qsdp-shift:4", "tagc:10"}) {
    CAPTURE(method);
    auto const record = small_training::train(in_groups(2, method));
    CHECK(record.heldout_loss < record.steps.front().loss - 0.1);
    CHECK(bytes_between(record) < bytes_between(full));
    if (method == "random:4" || method == "qsdp-shift:4")  // which draw
      CHECK(record.heldout_loss == small_training::train(in_groups(2, method)).heldout_loss);
  }
}

TEST_CASE("groups that average less often send less") {
  auto const full = small_training::train(in_groups(2, "full"));
  auto sent = bytes_between(full) + 1;
  for (int steps : {1, 4}) {
    CAPTURE(steps);
    auto chosen = in_groups(2, "full");
    chosen.sync_every = steps;
    auto const record = small_training::train(chosen);
    CHECK(bytes_between(record) < sent);
    CHECK(record.heldout_loss < record.steps.front().loss - 0.1);
    sent = bytes_between(record);
  }
  auto chosen = in_groups(2, "int8");
  chosen.sync_every = 5;
  chosen.outer = moe_gpt::outer::diloco;
  CHECK(small_training::train(chosen).heldout_loss < full.steps.front().loss - 0.1);
  chosen.sync_alpha = 1;  // one round
  CHECK(bytes_between(small_training::train(chosen)) < sent);
}

TEST_CASE("groups that train on while parameters are being sent learn, too") {
  auto rounds = in_groups(2, "full");
  rounds.sync_every = 4;
  auto const waits = small_training::train(rounds);
  auto streaming = rounds;
  streaming.fragments = 2;
  auto const in_turn = small_training::train(streaming);
  streaming.sync_delay = 1;
  streaming.sync_mix = 0.5;
  auto co2 = rounds;
  co2.outer = moe_gpt::outer::co2;
  for (auto const& record :
       {in_turn, small_training::train(streaming), small_training::train(co2)}) {
    CHECK(record.heldout_loss < record.steps.front().loss - 0.05);
    CHECK(bytes_between(record) > 0);
    CHECK(bytes_between(record) <= 2 * bytes_between(waits));  // at the end all cross once more
  }
}

TEST_CASE("L-GreCo: ranks chosen during training send less, and train as well") {
  auto chosen = in_groups(2, "powersgd:2");
  auto const fixed = small_training::train(chosen);
  chosen.adapt_every = 2;
  auto const adapted = small_training::train(chosen);
  CHECK(bytes_between(adapted) < bytes_between(fixed));
  CHECK(std::abs(adapted.heldout_loss - fixed.heldout_loss) < 0.1);
}

TEST_CASE("a run goes on in another number of groups") {
  struct variant {
    char const* between;
    int sync_every;
    moe_gpt::outer outer;
  };
  for (auto const& v :
       {variant{"demo", 0, moe_gpt::outer::average}, variant{"int8", 0, moe_gpt::outer::average},
        variant{"full", 4, moe_gpt::outer::diloco}, variant{"full", 4, moe_gpt::outer::co2}}) {
    CAPTURE(v.between, v.sync_every, name_of(v.outer));
    for (auto const& [from, to] : {std::pair{1, 2}, {2, 4}, {4, 2}, {2, 1}}) {
      CAPTURE(from, to);
      auto const folder = support::temporary_folder{};
      auto chosen = in_groups(from, v.between);
      chosen.sync_every = v.sync_every;
      chosen.outer = v.outer;
      chosen.save = folder.path() / "run";
      chosen.steps = 4;
      auto const first = small_training::train(chosen);
      auto other = in_groups(to, v.between);
      other.sync_every = v.sync_every;
      other.outer = v.outer;
      other.steps = 8;
      other.resume = chosen.save;
      auto const second = small_training::train(other);
      CHECK(second.steps.size() == 4);
      CHECK(second.heldout_loss < first.steps.front().loss - 0.05);
      if (v.outer != moe_gpt::outer::co2)  // of which the first round has not yet arrived
        CHECK(second.steps.front().loss < first.steps.front().loss - 0.05);
    }
  }
}

TEST_CASE("full gradients: a run resumed with another number of groups has the same losses") {
  auto const folder = support::temporary_folder{};
  auto chosen = in_groups(4, "full");
  chosen.save = folder.path() / "run";
  chosen.steps = 4;
  (void)small_training::train(chosen);
  auto go_on = in_groups(4, "full");
  go_on.steps = 8;
  go_on.resume = chosen.save;
  auto const same = small_training::train(go_on);
  for (int groups : {1, 2}) {
    auto other = go_on;
    other.groups = groups;
    CHECK(distance(small_training::train(other), same) < 1e-5);
  }
}

TEST_CASE("a run cannot resume with other groups within a round") {
  auto const folder = support::temporary_folder{};
  auto chosen = in_groups(2, "full");
  chosen.sync_every = 3;
  chosen.save = folder.path() / "run";
  chosen.save_every = 4;
  chosen.steps = 8;
  chosen.keep = 2;
  (void)small_training::train(chosen);
  for (auto const* const group : {"group_0", "group_1"})
    std::filesystem::remove_all(chosen.save / group / "step_00000008");
  auto other = in_groups(4, "full");
  other.sync_every = 3;
  other.steps = 8;
  other.resume = chosen.save;
  auto text = std::string{};
  try {
    (void)small_training::train(other);
  } catch (std::invalid_argument const& error) {
    text = error.what();
  }
  CHECK(text.find("it was saved within a round of 2 groups, 2 steps before its end; expected the "
                  "end for other groups") != std::string::npos);
}

TEST_CASE("impossible options of groups are refused") {
  auto const refused = [](auto change) {
    auto chosen = in_groups(2, "full");
    change(chosen);
    CHECK_THROWS_AS(validate(chosen), std::invalid_argument);
  };
  CHECK_NOTHROW(validate(in_groups(2, "full")));
  refused([](options& of) { of.groups = 3; });
  refused([](options& of) { of.batch = 7; });
  refused([](options& of) { of.groups = 0; });
  refused([](options& of) { of.sync_every = -1; });
  refused([](options& of) { of.sync_alpha = 1; });
  refused([](options& of) { of.between = "most"; });
  refused([](options& of) { of.between = "demo:0"; });
  refused([](options& of) { of.between = "int8:4"; });
  refused([](options& of) { of.between = "powersgd:x"; });
  refused([](options& of) { of.between = "qsdp:3"; });
  refused([](options& of) { of.outer = moe_gpt::outer::co2; });
  refused([](options& of) { of.fragments = 2; });
  refused([](options& of) { of.sync_delay = 1; });
  refused([](options& of) { of.sync_mix = 0.5; });
  refused([](options& of) { of.adapt_every = 2; });
}
