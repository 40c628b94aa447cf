// SPDX-License-Identifier: Apache-2.0
/// Tokens on a device, by host back ends of Thrust: the same results as on the host.
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/system/omp/execution_policy.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/token/device_permute.hpp"
#include "fssdp/token/permute.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/types.hpp"

namespace {

using fssdp::expert_id;
using fssdp::rows_view;

/// Choices of a router, and memory for their order.
struct chosen_tokens {
  int experts;
  std::size_t per_token;
  std::vector<expert_id> choices;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint32_t> row_of, choice_of;
  std::vector<int> sorted;

  explicit chosen_tokens(support::dice& draw)
      : experts{draw.between(1, 9)},
        per_token{static_cast<std::size_t>(draw.between(1, 3))},
        counts(static_cast<std::size_t>(experts)) {
    auto const tokens = static_cast<std::size_t>(draw.between(0, 40));
    for (std::size_t c = 0; c < tokens * per_token; ++c)
      choices.emplace_back(draw.between(0, experts - 1));
    row_of.resize(choices.size());
    choice_of = row_of;
    sorted.resize(choices.size());
  }
  [[nodiscard]] std::size_t tokens() const { return choices.size() / per_token; }
  [[nodiscard]] fssdp::device_expert_order order() {
    return {counts, row_of, choice_of, sorted, per_token};
  }
  [[nodiscard]] fssdp::expert_order on_host() const {
    return {choices, experts, static_cast<int>(per_token)};
  }
};

/// Small whole numbers, so that the order of a sum is of no matter; one more than is viewed, if
/// addresses are to be odd.
template <class T>
struct token_matrix {
  std::vector<T> values;
  rows_view<T> view;

  token_matrix(std::size_t count, std::size_t width, std::size_t skip, support::dice& draw)
      : values(count * width + skip), view{values.data() + skip, count, width} {
    for (auto& value : values) value = static_cast<T>(static_cast<float>(draw.between(-9, 9)));
  }
  token_matrix(token_matrix const&) = delete;
  [[nodiscard]] rows_view<T const> read() const { return {view.data, view.count, view.width}; }
};

/// Calls law(draw) for the seeds 1, 2, ...
template <class Law>
void for_random_choices(Law law) {
  for (int seed = 1; seed <= support::some_instances; ++seed) {
    CAPTURE(seed);
    law(support::dice{static_cast<std::uint64_t>(seed)});
  }
}

template <class T>
bool same_bytes(token_matrix<T> const& a, token_matrix<T> const& b) {
  return std::ranges::equal(std::as_bytes(std::span{a.values}), std::as_bytes(std::span{b.values}));
}

/// Narrow or wide, odd or as accesses like it: a backward pass differs.
std::size_t drawn_width(support::dice& draw) {
  auto const most = draw.chance(50) ? 20 : 150;
  return static_cast<std::size_t>(draw.chance(50) ? draw.between(0, most)
                                                  : 8 * draw.between(0, most / 8));
}

template <class Policy>
void check_order_on(Policy const& on) {
  for_random_choices([&](support::dice draw) {
    auto of = chosen_tokens{draw};
    fssdp::order_by_expert(on, std::span<expert_id const>{of.choices}, of.order());
    auto const expected = of.on_host();
    REQUIRE(std::ranges::equal(of.counts, expected.counts()));
    auto wrong = 0;
    for (std::size_t c = 0; c < of.choices.size(); ++c) {
      wrong += of.row_of[c] == expected.row(c) ? 0 : 1;
      wrong += of.choice_of[expected.row(c)] == c ? 0 : 1;
      wrong += of.sorted[expected.row(c)] == of.choices[c].value() ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  });
}

/// On one rank of three that all get something.
template <class Policy>
void check_order_for_plan_on(Policy const& on) {
  for_random_choices([&](support::dice draw) {
    auto of = chosen_tokens{draw};
    fssdp::order_by_expert(on, std::span<expert_id const>{of.choices}, of.order());
    auto counted = of.counts;
    counted.resize(3 * counted.size());
    auto const plan = fssdp::token_plan{
        fssdp::token_counts{3, of.experts, counted},
        fssdp::placement{fssdp::cyclic_layout{{.experts = of.experts, .ranks = 3}}},
        fssdp::rank_id{0},
        {},
        {.sent = fssdp::row_order::by_rank}};
    auto const rows = plan.rows_by_expert();
    fssdp::order_for_plan(on, std::span<std::uint32_t const>{rows}, of.order());
    auto const expected = fssdp::expert_order{of.on_host(), plan};
    auto wrong = 0;
    for (std::size_t c = 0; c < of.choices.size(); ++c) {
      wrong += of.row_of[c] == expected.row(c) ? 0 : 1;
      wrong += of.choice_of[expected.row(c)] == c ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  });
}

template <class T, class Policy>
void check_rows_on(Policy const& on) {
  for_random_choices([&](support::dice draw) {
    auto of = chosen_tokens{draw};
    fssdp::order_by_expert(on, std::span<expert_id const>{of.choices}, of.order());
    auto const host = of.on_host();
    auto const rows = of.choices.size();
    auto const width = drawn_width(draw);
    auto const skip = static_cast<std::size_t>(draw.between(0, 1));
    auto const matrix = [&](std::size_t count) {
      return token_matrix<T>{count, width, skip, draw};
    };
    auto weights = std::vector<float>(rows);
    for (auto& weight : weights) weight = static_cast<float>(draw.between(0, 3));
    auto const w = std::span<float const>{weights};

    auto const tokens = matrix(of.tokens());
    auto spread = matrix(rows);
    auto expected_spread = token_matrix<T>{rows, width, skip, draw};
    expected_spread.values = spread.values;
    fssdp::permute(on, of.order(), tokens.read(), spread.view);
    fssdp::permute(host, tokens.read(), expected_spread.view);
    REQUIRE(same_bytes(spread, expected_spread));

    auto brought = matrix(of.tokens());
    auto expected_brought = token_matrix<T>{of.tokens(), width, skip, draw};
    expected_brought.values = brought.values;
    fssdp::unpermute(on, of.order(), w, spread.read(), brought.view);
    fssdp::unpermute(host, w, spread.read(), expected_brought.view);
    REQUIRE(same_bytes(brought, expected_brought));
    fssdp::permute_backward(on, of.order(), spread.read(), brought.view);
    fssdp::permute_backward(host, spread.read(), expected_brought.view);
    REQUIRE(same_bytes(brought, expected_brought));

    auto const d_tokens = matrix(of.tokens());
    auto d_rows = matrix(rows);
    auto expected_d_rows = token_matrix<T>{rows, width, skip, draw};
    expected_d_rows.values = d_rows.values;
    auto d_weights = std::vector<fssdp::accumulator_t<T>>(width == 0 ? 0 : rows);
    auto expected_d_weights = d_weights;
    if (width == 0) return;
    fssdp::unpermute_backward(on, of.order(), w, spread.read(), d_tokens.read(), d_rows.view,
                              std::span{d_weights});
    fssdp::unpermute_backward(host, w, spread.read(), d_tokens.read(), expected_d_rows.view,
                              std::span{expected_d_weights});
    REQUIRE(same_bytes(d_rows, expected_d_rows));
    REQUIRE(d_weights == expected_d_weights);
  });
}

template <class T>
void fill_roughly(std::span<T> values, support::dice& draw) {
  for (auto& value : values)
    value = static_cast<T>(
        std::ldexp(static_cast<float>(draw.between(-9'999, 9'999)), draw.between(-20, 0)));
}

/// What the backward pass makes of rough numbers, in memory that begins so many elements after a
/// boundary.
template <class T, class Policy>
std::vector<fssdp::accumulator_t<T>> rough_gradients(Policy const& on, support::dice draw,
                                                     std::size_t skip) {
  using sum_type = fssdp::accumulator_t<T>;
  auto of = chosen_tokens{draw};
  fssdp::order_by_expert(on, std::span<expert_id const>{of.choices}, of.order());
  auto const width = drawn_width(draw);
  auto before = support::dice{skip};
  auto const d_tokens = token_matrix<T>{of.tokens(), width, skip, before};
  auto const rows = token_matrix<T>{of.choices.size(), width, skip, before};
  auto const d_rows = token_matrix<T>{of.choices.size(), width, skip, before};
  auto weights = std::vector<float>(of.choices.size());
  fill_roughly(d_tokens.view.elements(0, of.tokens()), draw);
  fill_roughly(rows.view.elements(0, of.choices.size()), draw);
  fill_roughly(std::span{weights}, draw);
  auto result = std::vector<sum_type>(of.choices.size());
  fssdp::unpermute_backward(on, of.order(), std::span<float const>{weights}, rows.read(),
                            d_tokens.read(), d_rows.view, std::span{result});
  auto wrong = 0;
  for (std::size_t c = 0; c < of.choices.size(); ++c) {
    auto exact = 0.0;
    auto magnitude = 0.0;
    for (std::size_t i = 0; i < width; ++i) {
      auto const gradient = static_cast<sum_type>(d_tokens.view[c / of.per_token][i]);
      auto const term = double{gradient} * static_cast<double>(rows.view[of.row_of[c]][i]);
      exact += term;
      magnitude += std::abs(term);
      auto const expected = static_cast<T>(static_cast<sum_type>(weights[c]) * gradient);
      wrong += std::memcmp(&d_rows.view[of.row_of[c]][i], &expected, sizeof(T)) == 0 ? 0 : 1;
    }
    wrong += std::abs(double{result[c]} - exact) <= 1e-5 * magnitude ? 0 : 1;
  }
  REQUIRE(wrong == 0);
  return result;
}

}  // namespace

TEST_CASE("tokens on a device are ordered by expert as on the host") {
  check_order_on(thrust::cpp::par);
  check_order_on(thrust::omp::par);
}

TEST_CASE("rows on a device are put where a plan sends them as on the host") {
  check_order_for_plan_on(thrust::cpp::par);
  check_order_for_plan_on(thrust::omp::par);
}

TEMPLATE_TEST_CASE("tokens on a device are permuted, weighed and brought back as on the host", "",
                   TYPES_OF_A_TEST(float, fssdp::bf16, double, fssdp::fp16, fssdp::fp8_e4m3,
                                   fssdp::fp8_e5m2)) {
  check_rows_on<TestType>(thrust::cpp::par);
  check_rows_on<TestType>(thrust::omp::par);
}

TEMPLATE_TEST_CASE("gradients of weights on a device have the same bits at all addresses", "",
                   TYPES_OF_A_TEST(float, fssdp::bf16, double, fssdp::fp16, fssdp::fp8_e4m3,
                                   fssdp::fp8_e5m2)) {
  for_random_choices([](support::dice draw) {
    auto const expected = rough_gradients<TestType>(thrust::cpp::par, draw, 0);
    for (std::size_t skip = 0; skip < 4; ++skip)
      REQUIRE(rough_gradients<TestType>(thrust::omp::par, draw, skip) == expected);
  });
}

TEST_CASE("tokens on a device: sizes that do not match are errors with both numbers") {
  auto draw = support::dice{1};
  auto made = std::optional<chosen_tokens>{};
  do {
    made.emplace(draw);
  } while (made->tokens() < 2);
  auto& of = *made;
  auto const all = std::span<expert_id const>{of.choices};
  auto const on = thrust::cpp::par;
  auto const fewer = all.subspan(1);
  REQUIRE_THROWS_AS(fssdp::order_by_expert(on, fewer, of.order()), fssdp::argument_error);
  auto short_of = of.order();
  short_of.choice_of = short_of.choice_of.first(1);
  REQUIRE_THROWS_WITH(fssdp::order_by_expert(on, all, short_of), mentions("choice_of for 1"));
  auto const rows_of_plan = std::vector<std::uint32_t>(all.size() - 1);
  REQUIRE_THROWS_WITH(
      fssdp::order_for_plan(on, std::span<std::uint32_t const>{rows_of_plan}, of.order()),
      mentions("order_for_plan") && mentions("rows; expected"));
  auto uneven = of.order();
  uneven.per_token = all.size() + 1;
  REQUIRE_THROWS_WITH(fssdp::order_by_expert(on, all, uneven), mentions("expected a multiple of"));
  fssdp::order_by_expert(on, all, of.order());
  auto const tokens = token_matrix<float>{of.tokens() + 1, 3, 0, draw};
  auto rows = token_matrix<float>{all.size(), 3, 0, draw};
  REQUIRE_THROWS_WITH(fssdp::permute(on, of.order(), tokens.read(), rows.view),
                      mentions("permute: from is"));
  auto const weights = std::vector<float>(all.size() - 1);
  REQUIRE_THROWS_WITH(fssdp::unpermute(on, of.order(), std::span{weights}, rows.read(),
                                       rows_view<float>{rows.view.data, of.tokens(), 3}),
                      mentions("weights; expected"));
  auto const null = rows_view<float const>{nullptr, of.tokens(), 3};
  REQUIRE_THROWS_WITH(fssdp::permute(on, of.order(), null, rows.view), mentions("from is null"));
  REQUIRE_THROWS_WITH(
      fssdp::permute(on, of.order(), rows_view<float const>{rows.view.data, of.tokens(), 3},
                     rows.view),
      mentions("permute: from and to share memory"));
}
