// SPDX-License-Identifier: Apache-2.0
/// A small training of moe_gpt, for tests that change one thing about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "moe_gpt/train.hpp"

namespace small_training {

/// 4 ranks, 8 experts in 2 layers, some of them on several ranks.
[[nodiscard]] inline moe_gpt::options settings(int steps, std::uint64_t seed) {
  auto chosen = moe_gpt::options{};
  chosen.ranks = 4;
  chosen.experts = 8;
  chosen.layers = 2;
  chosen.d_model = 24;
  chosen.heads = 2;
  chosen.seq = 16;
  chosen.batch = 7;
  chosen.steps = steps;
  chosen.seed = seed;
  chosen.overlap = 4;
  chosen.spare_slots = 2;
  chosen.sample = 16;
  return chosen;
}

/// Some words in an order that can be learned in part.
[[nodiscard]] inline moe_gpt::corpus corpus(moe_gpt::options const& chosen) {
  auto bytes = std::vector<std::uint8_t>{};
  auto const words = std::vector<std::string>{"save ", "resume ", "step ", "moment ", "shard.\n"};
  for (std::uint64_t i = 0; bytes.size() < 20000; ++i) {
    auto const& word = words[moe_gpt::mix({i / 4}) % words.size()];
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  return {std::move(bytes), static_cast<std::size_t>(chosen.seq), chosen.seed, "words"};
}

[[nodiscard]] inline moe_gpt::run_record train(moe_gpt::options const& chosen) {
  return moe_gpt::train(chosen, corpus(chosen), [](moe_gpt::step_record const&) {});
}

}  // namespace small_training
