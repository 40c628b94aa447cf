// SPDX-License-Identifier: Apache-2.0
/// What every load predictor promises, law by law. A model passes with a short file of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

namespace contract {

/// Model::make(experts) gives a predictor without a history, always the same one. Loads are below
/// 2^60, as a predictor may add some up.
template <class Model>
class load_predictor_contract {
  using predictor = decltype(Model::make(1));
  using loads = fssdp::expert_loads;
  static_assert(fssdp::load_predictor<predictor>);

 public:
  /// All laws; a section each.
  static void check() {
    SECTION("before any loads, and after none but zero, the prediction is zero") {
      auto expects = Model::make(3);
      for (int step = 0; step < 8; ++step) {
        REQUIRE(predicted(expects) == loads(3));
        expects.push(loads(3));
      }
    }
    SECTION("a constant history predicts itself") {
      for_many_histories([](std::vector<loads> const& history) {
        auto expects = Model::make(static_cast<int>(history.front().size()));
        for (std::size_t step = 0; step < history.size(); ++step) {
          expects.push(history.front());
          REQUIRE(predicted(expects) == history.front());
        }
      });
    }
    SECTION("equal histories give equal predictions, and copies go their own ways") {
      for_many_histories([](std::vector<loads> const& history) {
        auto const experts = static_cast<int>(history.front().size());
        auto one = Model::make(experts);
        auto other = Model::make(experts);
        for (auto const& now : history) {
          auto const before = one;
          auto const expected = predicted(one);
          one.push(now);
          REQUIRE(predicted(before) == expected);
          other.push(now);
          REQUIRE(predicted(one) == predicted(other));
          REQUIRE(one == other);
        }
      });
    }
    SECTION("a changed world changes nothing: what counts is the sum over all ranks") {
      for_many_histories([](std::vector<loads> const& history) {
        auto draw = support::dice{history.size()};
        auto const experts = static_cast<int>(history.front().size());
        auto expects = Model::make(experts);
        auto elsewhere = Model::make(experts);
        for (auto const& now : history) {
          expects.push(now);
          elsewhere.push(summed(counted_on(draw.between(1, 9), now, draw)));
        }
        REQUIRE(predicted(expects) == predicted(elsewhere));
      });
    }
    SECTION("a new expert begins with the mean of the others, so that solvers see it") {
      auto expects = Model::make(3);
      for (int step = 0; step < 4; ++step) expects.push(loads{20, 0, 10});
      expects.resize(5);
      REQUIRE(predicted(expects) == loads{20, 0, 10, 10, 10});
      expects.push(loads{20, 0, 10, 10, 10});
      REQUIRE(predicted(expects) == loads{20, 0, 10, 10, 10});
      auto busy = Model::make(3);
      busy.push(loads{0, 1, 0});
      busy.resize(4);
      REQUIRE(predicted(busy).back() > 0);
      for (int step = 0; step < 200; ++step)
        busy.push(loads{2, 2, 2, 0});  // is not needed after all
      REQUIRE(busy.predict()[3] <= 1);
    }
    SECTION("experts that stay keep their histories; an expert that has gone comes back as new") {
      for_many_histories([](std::vector<loads> const& history) {
        auto const experts = static_cast<int>(history.front().size());
        auto expects = Model::make(experts);
        for (auto const& now : history) expects.push(now);
        auto const before = predicted(expects);
        auto same = expects;
        same.resize(experts);
        REQUIRE(same == expects);
        expects.resize(experts + 2);
        auto const more = predicted(expects);
        REQUIRE(more.size() == before.size() + 2);
        REQUIRE(std::ranges::equal(std::span{more}.first(before.size()), before));
        REQUIRE(more.back() >= std::ranges::min(before));
        REQUIRE(more.back() <= std::ranges::max(before) + history.size());  // rounded up
        expects.resize(experts);
        REQUIRE(expects == same);
        expects.resize(1);
        REQUIRE(predicted(expects) == loads{before.front()});
      });
    }
    if constexpr (fssdp::remembering_load_predictor<predictor>) check_memory();
    SECTION("loads of another model, and one without experts, are refused") {
      auto expects = Model::make(4);
      REQUIRE_THROWS_AS(expects.push(loads(3)), fssdp::argument_error);
      REQUIRE_THROWS_WITH(expects.push(loads(3)), mentions("3 loads") && mentions("4"));
      REQUIRE(expects == Model::make(4));
      expects.resize(3);
      REQUIRE_NOTHROW(expects.push(loads(3)));
      REQUIRE_THROWS_AS(expects.push(loads(4)), fssdp::argument_error);
      for (auto const none : {0, -1}) {
        REQUIRE_THROWS_AS(expects.resize(none), fssdp::argument_error);
        REQUIRE_THROWS_WITH(expects.resize(none), mentions("1 or more"));
        REQUIRE_THROWS_AS(Model::make(none), fssdp::argument_error);
      }
    }
  }

 private:
  static void check_memory() {
    SECTION("a predictor that recalls goes on as if it had not been interrupted") {
      for_many_histories([](std::vector<loads> const& history) {
        auto draw = support::dice{history.size()};
        auto const experts = static_cast<int>(history.front().size());
        auto expects = Model::make(experts);
        auto again = Model::make(experts);
        if (draw.chance(50)) again.push(history.back());  // is forgotten
        again.recall(expects.memory());
        for (auto const& now : history) {
          REQUIRE(predicted(again) == predicted(expects));
          if (draw.chance(30)) {
            auto const memory = expects.memory();
            again = Model::make(experts);
            again.recall(memory);
            REQUIRE(again.memory() == memory);
            REQUIRE(predicted(again) == predicted(expects));
          }
          expects.push(now);
          again.push(now);
        }
        REQUIRE(predicted(again) == predicted(expects));
        REQUIRE(again.memory() == expects.memory());
      });
    }
    SECTION("the memory of another number of experts is refused, and changes nothing") {
      auto expects = Model::make(3);
      expects.push(loads{1, 2, 3});
      auto other = Model::make(4);
      other.push(loads{1, 2, 3, 4});
      auto const before = expects;
      REQUIRE_THROWS_AS(expects.recall(other.memory()), fssdp::argument_error);
      REQUIRE_THROWS_WITH(expects.recall(other.memory()), mentions("recall of"));
      REQUIRE(expects == before);
    }
  }

  template <class Law>
  static void for_many_histories(Law law) {
    for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{support::some_instances}; ++seed) {
      CAPTURE(seed);
      auto draw = support::dice{seed};
      auto const experts = static_cast<std::size_t>(draw.between(1, 12));
      auto const shift = draw.between(0, 40);
      auto history = std::vector<loads>(static_cast<std::size_t>(draw.between(1, 12)));
      for (auto& now : history)
        for (std::size_t e = 0; e < experts; ++e)
          now.push_back(static_cast<std::uint64_t>(draw.between(0, 1'000'000)) << shift);
      law(history);
    }
  }

  [[nodiscard]] static loads predicted(predictor const& expects) {
    std::span<std::uint64_t const> const view = expects.predict();
    return {view.begin(), view.end()};
  }

  /// The same tokens as so many ranks count them: [ranks] of [experts].
  [[nodiscard]] static std::vector<loads> counted_on(int ranks, loads const& all,
                                                     support::dice& draw) {
    auto counts = std::vector<loads>(static_cast<std::size_t>(ranks), loads(all.size()));
    for (std::size_t e = 0; e < all.size(); ++e) {
      auto left = all[e];
      for (auto& of_rank : counts) {
        of_rank[e] = left / static_cast<std::uint64_t>(draw.between(1, 5));
        left -= of_rank[e];
      }
      counts.front()[e] += left;
    }
    return counts;
  }
  [[nodiscard]] static loads summed(std::vector<loads> const& counts) {
    auto sum = loads(counts.front().size());
    for (auto const& of_rank : counts)
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += of_rank[e];
    return sum;
  }
};

}  // namespace contract
