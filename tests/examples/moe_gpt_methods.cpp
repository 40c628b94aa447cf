// SPDX-License-Identifier: Apache-2.0
// What methods between groups cost in loss: each stays within a limit of full exchange, and one group
// alone, on its quarter of the batch, does not. So the exchange matters, and a method that sends
// nothing useful would be found.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/train.hpp"
#include "small_training.hpp"
#include "support/dice.hpp"
#include "support/needs.hpp"

namespace {

using moe_gpt::options;

/// Sentences of a language of 60 words, in which some words follow each other more often.
[[nodiscard]] moe_gpt::corpus sentences(options const& chosen) {
  auto draw = support::dice{7};
  auto words = std::vector<std::string>{};
  for (int w = 0; w < 60; ++w) {
    auto& word = words.emplace_back();
    for (int length = draw.between(2, 7); length > 0; --length)
      word += static_cast<char>('a' + draw.between(0, 25));
  }
  auto bytes = std::vector<std::uint8_t>{};
  for (int word = 0; bytes.size() < 200'000;) {
    auto const& text = words[static_cast<std::size_t>(word)];
    bytes.insert(bytes.end(), text.begin(), text.end());
    bytes.push_back(' ');
    word = (7 * word + draw.between(0, 5)) % 60;
  }
  return {std::move(bytes), static_cast<std::size_t>(chosen.seq), chosen.seed, "sentences"};
}

/// Four groups of one rank.
[[nodiscard]] options in_four_groups() {
  auto chosen = small_training::settings(150, 3);
  chosen.experts = 4;
  chosen.overlap = 1;
  chosen.spare_slots = 1;
  chosen.lr = 8e-3;
  chosen.batch = 8;
  chosen.groups = 4;
  chosen.sample = 0;
  return chosen;
}
[[nodiscard]] double loss_of(options const& chosen) {
  return moe_gpt::train(chosen, sentences(chosen), [](moe_gpt::step_record const&) {}).heldout_loss;
}

}  // namespace

TEST_CASE("150 steps of four groups: losses of methods beside full exchange and one alone") {
  if (auto const lacks = support::lacks_speed(); !lacks.empty()) return skip_test(lacks);
  auto const full = loss_of(in_four_groups());
  auto alone = in_four_groups();
  alone.ranks = 1;
  alone.groups = 1;
  alone.batch = 2;
  auto const over_full = [&](options const& chosen) { return loss_of(chosen) / full - 1; };
  CHECK(over_full(alone) > 0.04);

  auto momentum = in_four_groups();
  momentum.between = "demo";
  CHECK(over_full(momentum) < 0.02);
  auto rounds = in_four_groups();
  rounds.sync_every = 4;
  CHECK(over_full(rounds) < 0.03);
}
