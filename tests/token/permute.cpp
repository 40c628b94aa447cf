// SPDX-License-Identifier: Apache-2.0
/// Sorting rows by expert and back, forwards and backwards, against plain loops.
#include "fssdp/token/permute.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::expert_order;
using fssdp::rows_view;

namespace {

using real_matrix = std::vector<double>;  // row after row

/// Random choices of the router, with everything that goes through them.
struct gate_case {
  int experts;
  int per_token;
  std::size_t tokens;
  std::size_t width;
  std::vector<expert_id> choices;
  real_matrix tokens_in;  // [tokens, width]
  real_matrix rows;       // [choices, width]
  real_matrix weights;    // [choices]
  real_matrix d_tokens;   // [tokens, width]

  explicit gate_case(support::dice draw)
      : experts{draw.between(1, 9)},
        per_token{draw.between(1, 3)},
        tokens{static_cast<std::size_t>(draw.between(0, 20))},
        width{static_cast<std::size_t>(draw.between(1, 4))} {
    auto const numbers = [&](std::size_t count) {
      auto list = real_matrix(count);
      for (auto& value : list) value = draw.between(-9, 9);
      return list;
    };
    for (std::size_t c = 0; c < tokens * static_cast<std::size_t>(per_token); ++c)
      choices.emplace_back(draw.between(0, experts - 1));
    tokens_in = numbers(tokens * width);
    rows = numbers(choices.size() * width);
    weights = numbers(choices.size());
    d_tokens = numbers(tokens * width);
  }

  [[nodiscard]] expert_order order() const { return {choices, experts, per_token}; }
  [[nodiscard]] std::size_t token(std::size_t choice) const {
    return choice / static_cast<std::size_t>(per_token);
  }
  [[nodiscard]] rows_view<double const> view(real_matrix const& of) const {
    return {of.data(), of.size() / width, width};
  }
  [[nodiscard]] rows_view<double> view(real_matrix& of) const {
    return {of.data(), of.size() / width, width};
  }
  /// The row of each choice, by sorting.
  [[nodiscard]] std::vector<std::size_t> sorted_rows() const {
    auto by_expert = std::vector<std::size_t>(choices.size());
    std::iota(by_expert.begin(), by_expert.end(), std::size_t{0});
    std::ranges::stable_sort(by_expert, {}, [&](std::size_t c) { return choices[c]; });
    auto row = std::vector<std::size_t>(choices.size());
    for (std::size_t r = 0; r < row.size(); ++r) row[by_expert[r]] = r;
    return row;
  }
};

[[nodiscard]] double dot(real_matrix const& a, real_matrix const& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

template <class Law>
void for_random_gates(Law law) {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    law(gate_case{support::dice{static_cast<std::uint64_t>(seed)}});
  }
}

}  // namespace

TEST_CASE("expert_order sorts choices by expert, stably, and counts them") {
  for_random_gates([](gate_case const& of) {
    auto const order = of.order();
    auto const expected = of.sorted_rows();
    auto counts = std::vector<std::uint64_t>(static_cast<std::size_t>(of.experts));
    auto wrong = 0;
    for (std::size_t c = 0; c < of.choices.size(); ++c) {
      ++counts[of.choices[c].index()];
      wrong += order.row(c) != expected[c] ? 1 : 0;
    }
    REQUIRE(wrong == 0);
    REQUIRE(std::vector(order.counts().begin(), order.counts().end()) == counts);
    REQUIRE(order.tokens() == of.tokens);
    REQUIRE(order.rows() == of.choices.size());
    REQUIRE(order.per_token() == static_cast<std::size_t>(of.per_token));
  });
}

TEST_CASE("permute copies every token to its rows, its backward is the transpose") {
  for_random_gates([](gate_case const& of) {
    auto const row = of.sorted_rows();
    auto expected = real_matrix(of.rows.size());
    auto expected_back = real_matrix(of.tokens_in.size());
    for (std::size_t c = 0; c < row.size(); ++c)
      for (std::size_t i = 0; i < of.width; ++i) {
        expected[row[c] * of.width + i] = of.tokens_in[of.token(c) * of.width + i];
        expected_back[of.token(c) * of.width + i] += of.rows[row[c] * of.width + i];
      }
    auto permuted = real_matrix(of.rows.size(), -77);
    auto back = real_matrix(of.tokens_in.size(), -77);
    permute(of.order(), of.view(of.tokens_in), of.view(permuted));
    permute_backward(of.order(), of.view(of.rows), of.view(back));
    REQUIRE(permuted == expected);
    REQUIRE(back == expected_back);
    REQUIRE(dot(permuted, of.rows) == dot(of.tokens_in, back));
  });
}

TEST_CASE("unpermute is the weighted sum of a token's rows, its backward the two derivatives") {
  for_random_gates([](gate_case const& of) {
    auto const row = of.sorted_rows();
    auto expected = real_matrix(of.tokens_in.size());
    auto expected_d_rows = real_matrix(of.rows.size());
    auto expected_d_weights = real_matrix(of.weights.size());
    for (std::size_t c = 0; c < row.size(); ++c)
      for (std::size_t i = 0; i < of.width; ++i) {
        auto const r = row[c] * of.width + i;
        auto const t = of.token(c) * of.width + i;
        expected[t] += of.weights[c] * of.rows[r];
        expected_d_rows[r] = of.weights[c] * of.d_tokens[t];
        expected_d_weights[c] += of.d_tokens[t] * of.rows[r];
      }
    auto out = real_matrix(of.tokens_in.size(), -77);
    auto d_rows = real_matrix(of.rows.size(), -77);
    auto d_weights = real_matrix(of.weights.size(), -77);
    unpermute(of.order(), std::span{of.weights}, of.view(of.rows), of.view(out));
    unpermute_backward(of.order(), std::span{of.weights}, of.view(of.rows), of.view(of.d_tokens),
                       of.view(d_rows), std::span{d_weights});
    REQUIRE(out == expected);
    REQUIRE(d_rows == expected_d_rows);
    REQUIRE(d_weights == expected_d_weights);
    REQUIRE(dot(out, of.d_tokens) == dot(of.rows, d_rows));        // linear in the rows
    REQUIRE(dot(out, of.d_tokens) == dot(of.weights, d_weights));  // and in the weights
  });
}

TEMPLATE_TEST_CASE("sums of all types are formed in accumulator_t and rounded once", "", float,
                   double, fssdp::bf16, fssdp::fp16, fssdp::fp8_e4m3, fssdp::fp8_e5m2) {
  using T = TestType;
  using sum_type = fssdp::accumulator_t<T>;
  auto const sum = [](T value) { return static_cast<sum_type>(value); };
  for (auto const width : {std::size_t{1}, std::size_t{255}, std::size_t{600}}) {
    CAPTURE(width);
    auto const of = gate_case{support::dice{width}};
    auto const order = of.order();
    auto draw = support::dice{width};
    auto const drawn = [&](auto element, std::size_t count) {
      auto list = std::vector<decltype(element)>(count);
      for (auto& value : list)
        value = static_cast<decltype(element)>(
            std::ldexp(static_cast<sum_type>(draw.between(-999, 999)), draw.between(-20, -5)));
      return list;
    };
    auto const view = [&]<class U>(std::vector<U>& list) {
      return rows_view<U>{list.data(), list.size() / width, width};
    };
    auto rows = drawn(T{}, order.rows() * width);
    auto d_tokens = drawn(T{}, order.tokens() * width);
    auto const weights = drawn(float{}, order.rows());
    auto sums = std::vector<T>(d_tokens.size(), T{-77.0F});
    auto weighted = sums;
    permute_backward(order, view(rows), view(sums));
    unpermute(order, std::span{weights}, view(rows), view(weighted));
    auto wrong = 0;
    for (std::size_t t = 0; t < order.tokens(); ++t)
      for (std::size_t i = 0; i < width; ++i) {
        auto expected = sum_type{};
        auto expected_weighted = sum_type{};
        for (auto c = t * order.per_token(); c < (t + 1) * order.per_token(); ++c) {
          auto const value = sum(rows[order.row(c) * width + i]);
          expected += value;
          expected_weighted += static_cast<sum_type>(weights[c]) * value;
        }
        wrong += sum(sums[t * width + i]) == sum(static_cast<T>(expected)) ? 0 : 1;
        wrong += sum(weighted[t * width + i]) == sum(static_cast<T>(expected_weighted)) ? 0 : 1;
      }
    auto d_rows = std::vector<T>(rows.size(), T{-77.0F});
    auto d_weights = std::vector<sum_type>(order.rows(), -77);
    unpermute_backward(order, std::span{weights}, view(rows), view(d_tokens), view(d_rows),
                       std::span{d_weights});
    for (std::size_t c = 0; c < order.rows(); ++c) {
      auto expected = sum_type{};
      for (std::size_t i = 0; i < width; ++i) {
        auto const gradient = sum(d_tokens[of.token(c) * width + i]);
        auto const r = order.row(c) * width + i;
        expected += gradient * sum(rows[r]);
        auto const d_row = static_cast<T>(static_cast<sum_type>(weights[c]) * gradient);
        wrong += sum(d_rows[r]) == sum(d_row) ? 0 : 1;
      }
      wrong += d_weights[c] == expected ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("sums keep bits that the type would lose in each addend", "", fssdp::bf16,
                   fssdp::fp16, fssdp::fp8_e4m3, fssdp::fp8_e5m2) {
  using T = TestType;
  auto large = 1.0F;  // large + 1 is large again, large + 2 is not
  while (static_cast<float>(T{large + 1}) > large) large *= 2;
  auto const choices = std::vector(3, expert_id{0});
  auto const order = expert_order{choices, 1, 3};
  auto const rows = std::vector{T{large}, T{1.0F}, T{1.0F}};
  auto const weights = std::vector(3, 1.0F);
  auto token = T{};
  permute_backward(order, rows_view<T const>{rows.data(), 3, 1}, rows_view<T>{&token, 1, 1});
  REQUIRE(static_cast<float>(token) == large + 2);
  token = T{};
  unpermute(order, std::span{weights}, rows_view<T const>{rows.data(), 3, 1},
            rows_view<T>{&token, 1, 1});
  REQUIRE(static_cast<float>(token) == large + 2);
}

TEST_CASE("impossible choices are errors that name them") {
  auto const choices = std::vector{expert_id{0}, expert_id{2}, expert_id{1}};
  auto const refuses = [&](int experts, int per_token, char const* a, char const* b) {
    auto const make = [&] { return expert_order{choices, experts, per_token}; };
    REQUIRE_THROWS_AS(make(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(make(), mentions(a) && mentions(b));
  };
  REQUIRE_NOTHROW(expert_order{choices, 3, 3});
  refuses(2, 1, "expert 2", "0 to 1");
  refuses(3, 2, "3 choices", "multiple of 2");
  refuses(3, 0, "3 choices", "multiple of 0");
  auto const negative = std::vector{expert_id{-1}};
  REQUIRE_THROWS_WITH((expert_order{negative, 2, 1}), mentions("expert -1") && mentions("0 to 1"));
  REQUIRE_THROWS_AS((expert_order{negative, -2, 1}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((expert_order{negative, -2, 1}), mentions("-2 experts"));
}

TEST_CASE("rows of another shape are refused by name") {
  auto const choices = std::vector{expert_id{0}, expert_id{1}};
  auto const order = expert_order{choices, 2, 2};  // one token, two rows
  auto memory = real_matrix(64);
  auto const rows = [&](std::size_t count, std::size_t width) {
    return rows_view<double>{memory.data(), count, width};
  };
  auto const weights = std::span{memory};
  auto const refuses = [](auto call, char const* a, char const* b) {
    REQUIRE_THROWS_AS(call(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(call(), mentions(a) && mentions(b));
  };
  refuses([&] { permute(order, rows(2, 3), rows(2, 3)); }, "permute: from", "[1, 3]");
  refuses([&] { permute(order, rows(1, 3), rows(1, 3)); }, "permute: to", "[2, 3]");
  refuses([&] { permute(order, rows(1, 3), rows(2, 4)); }, "[2, 4]", "expected [2, 3]");
  refuses([&] { permute_backward(order, rows(1, 3), rows(1, 3)); }, "permute_backward: from",
          "[2, 3]");
  refuses([&] { permute_backward(order, rows(2, 3), rows(2, 3)); }, "permute_backward: to",
          "[1, 3]");
  refuses([&] { unpermute(order, weights.first(1), rows(2, 3), rows(1, 3)); }, "1 weights",
          "expected 2");
  refuses([&] { unpermute(order, weights.first(2), rows(1, 3), rows(1, 3)); }, "unpermute: from",
          "[2, 3]");
  refuses([&] { unpermute(order, weights.first(2), rows(2, 3), rows(1, 2)); }, "unpermute: to",
          "[1, 3]");
  auto const backward = [&](std::size_t w, std::size_t r, std::size_t t, std::size_t dr,
                            std::size_t dw) {
    return [&, w, r, t, dr, dw] {
      unpermute_backward(order, weights.first(w), rows(r, 3), rows(t, 3), rows(dr, 3),
                         weights.first(dw));
    };
  };
  refuses(backward(1, 2, 1, 2, 2), "1 weights and 2", "expected 2 of each");
  refuses(backward(2, 2, 1, 2, 3), "2 weights and 3", "expected 2 of each");
  refuses(backward(2, 1, 1, 2, 2), "unpermute_backward: rows", "[2, 3]");
  refuses(backward(2, 2, 2, 2, 2), "unpermute_backward: d_tokens", "[1, 3]");
  refuses(backward(2, 2, 1, 1, 2), "unpermute_backward: d_rows", "[2, 3]");
}

TEST_CASE("an order for a plan has each choice in a row that goes to a holder of its expert") {
  for (int seed = 1; seed <= support::some_instances; ++seed) {
    CAPTURE(seed);
    auto const of = gate_case{support::dice{static_cast<std::uint64_t>(seed)}};
    auto const layout = fssdp::cyclic_layout{{.experts = of.experts, .ranks = 3}};
    auto const by_expert = of.order();
    auto counted = std::vector(by_expert.counts().begin(), by_expert.counts().end());
    counted.resize(3 * counted.size());  // other ranks have no tokens
    auto const plan = fssdp::token_plan{fssdp::token_counts{3, of.experts, counted},
                                        fssdp::placement{layout},
                                        fssdp::rank_id{0},
                                        {},
                                        {.sent = fssdp::row_order::by_rank}};
    auto const order = expert_order{by_expert, plan};
    auto choice_in = std::vector(of.choices.size(), of.choices.size());
    for (std::size_t c = 0; c < of.choices.size(); ++c) choice_in[order.row(c)] = c;
    auto wrong = 0;
    for (auto const& s : plan.sends())
      for (auto row = s.first; row < s.first + s.rows; ++row) {
        auto const choice = choice_in[row];
        wrong += choice >= of.choices.size() || of.choices[choice] != s.expert ? 1 : 0;
        wrong += row > s.first && choice_in[row - 1] > choice ? 1 : 0;  // as the tokens lie
      }
    REQUIRE(wrong == 0);
  }
  auto const choices = std::vector{expert_id{0}, expert_id{1}};
  auto const plan = fssdp::token_plan{
      fssdp::token_counts{1, 2, {1, 2}},
      fssdp::placement{fssdp::block_layout{{.experts = 2, .ranks = 1}}}, fssdp::rank_id{0}};
  REQUIRE_THROWS_WITH((expert_order{expert_order{choices, 2, 1}, plan}),
                      mentions("2 choices") && mentions("sends 3"));
}

TEST_CASE("rows without memory, of a width that cannot be or written over others are refused") {
  auto const choices = std::vector{expert_id{0}, expert_id{1}};
  auto const order = expert_order{choices, 2, 2};  // one token, two rows
  auto memory = real_matrix(64);
  auto const rows = [&](std::size_t first, std::size_t count, std::size_t width = 3) {
    return rows_view<double>{memory.data() + first, count, width};
  };
  auto const null = [](std::size_t count) { return rows_view<double>{nullptr, count, 3}; };
  auto const weights = [&](std::size_t first) { return std::span{memory}.subspan(first, 2); };
  auto const refuses = [](auto call, char const* a, char const* b) {
    REQUIRE_THROWS_AS(call(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(call(), mentions(a) && mentions(b));
  };
  refuses([&] { permute(order, null(1), rows(3, 2)); }, "permute: from is null", "[1, 3]");
  refuses([&] { permute(order, rows(0, 1), null(2)); }, "permute: to is null", "[2, 3]");
  refuses([&] { permute_backward(order, null(2), rows(0, 1)); }, "backward: from is null",
          "[2, 3]");
  refuses([&] { unpermute(order, weights(9), rows(0, 2), null(1)); }, "to is null", "[1, 3]");
  constexpr auto too_wide = std::size_t(-1) / 4;  // the two rows wrap around
  refuses([&] { permute(order, rows(0, 1, too_wide), rows(3, 2, too_wide)); }, "permute: from is",
          "expected at most");
  refuses([&] { permute(order, rows(0, 1, too_wide / 4), rows(3, 2, too_wide / 4)); },
          "permute: to is", "expected at most");
  refuses([&] { permute(order, rows(0, 1), rows(0, 2)); }, "permute: from and to share memory",
          "disjoint rows");
  refuses([&] { permute(order, rows(5, 1), rows(0, 2)); }, "permute: from and to", "disjoint");
  refuses([&] { permute_backward(order, rows(0, 2), rows(3, 1)); }, "from and to", "disjoint");
  refuses([&] { unpermute(order, weights(9), rows(0, 2), rows(0, 1)); }, "from and to", "disjoint");
  refuses([&] { unpermute(order, weights(8), rows(0, 2), rows(6, 1)); }, "weights and to",
          "disjoint");
  auto const backward = [&](std::size_t d_rows, std::size_t d_weights) {
    return [&, d_rows, d_weights] {
      unpermute_backward(order, weights(0), rows(2, 2), rows(8, 1), rows(d_rows, 2),
                         weights(d_weights));
    };
  };
  refuses(backward(2, 17), "rows and d_rows", "disjoint");
  refuses(backward(10, 17), "d_tokens and d_rows", "disjoint");
  refuses(backward(11, 0), "weights and d_weights", "disjoint");
  refuses(backward(11, 16), "d_rows and d_weights", "disjoint");
  REQUIRE_NOTHROW(backward(11, 17)());
  REQUIRE_NOTHROW(permute(order, rows(0, 1), rows(3, 2)));
  REQUIRE_NOTHROW(
      permute(order, rows_view<double>{nullptr, 1, 0}, rows_view<double>{nullptr, 2, 0}));
}
