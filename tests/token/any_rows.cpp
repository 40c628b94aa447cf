// SPDX-License-Identifier: Apache-2.0
/// Rows whose type is known at run time get the bits of rows of that type.
#include "fssdp/token/any_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::any_const_rows;
using fssdp::any_rows;
using fssdp::dtype;
using fssdp::expert_id;
using fssdp::rows_view;

namespace {

constexpr auto width = std::size_t{5};

/// Rows of some type, drawn.
template <class T>
struct drawn_rows {
  std::vector<T> memory;

  drawn_rows(std::size_t count, std::size_t of_width, std::uint64_t seed)
      : memory(count * of_width) {
    auto draw = support::dice{seed};
    for (auto& value : memory)
      value = static_cast<T>(static_cast<float>(draw.between(-99, 99)) / 64);
  }
  [[nodiscard]] rows_view<T const> view(std::size_t of_width = width) const {
    return {memory.data(), memory.size() / of_width, of_width};
  }
};
/// Rows to be written.
template <class T>
struct empty_rows {
  std::vector<T> memory;
  explicit empty_rows(std::size_t count, std::size_t of_width = width) : memory(count * of_width) {}
  [[nodiscard]] rows_view<T> view(std::size_t of_width = width) {
    return {memory.data(), memory.size() / of_width, of_width};
  }
  friend bool operator==(empty_rows const& a, empty_rows const& b) {
    return std::ranges::equal(std::as_bytes(std::span{a.memory}),
                              std::as_bytes(std::span{b.memory}));
  }
};

[[nodiscard]] fssdp::expert_order drawn_order() {
  auto draw = support::dice{3};
  auto choices = std::vector<expert_id>{};
  for (int c = 0; c < 24; ++c) choices.emplace_back(draw.between(0, 6));
  return {choices, 7, 2};
}

template <class T, class W>
void check_weighted() {
  auto const order = drawn_order();
  auto const rows = drawn_rows<T>{24, width, 1};
  auto const d_tokens = drawn_rows<T>{12, width, 2};
  auto const weights = drawn_rows<W>{24, 1, 5};
  auto found = empty_rows<T>{12};
  auto expected = empty_rows<T>{12};
  unpermute(order, any_rows_of(weights.view(1)), any_rows_of(rows.view()),
            any_rows_of(found.view()));
  unpermute(order, std::span{weights.memory}, rows.view(), expected.view());
  REQUIRE(found == expected);

  using sum_type = fssdp::accumulator_t<T>;
  auto d_rows = empty_rows<T>{24};
  auto expected_rows = empty_rows<T>{24};
  auto d_weights = empty_rows<sum_type>{24, 1};
  auto expected_weights = empty_rows<sum_type>{24, 1};
  unpermute_backward(order, any_rows_of(weights.view(1)), any_rows_of(rows.view()),
                     any_rows_of(d_tokens.view()), any_rows_of(d_rows.view()),
                     any_rows_of(d_weights.view(1)));
  unpermute_backward(order, std::span{weights.memory}, rows.view(), d_tokens.view(),
                     expected_rows.view(), std::span{expected_weights.memory});
  REQUIRE(d_rows == expected_rows);
  REQUIRE(d_weights == expected_weights);
}

/// Rows of a token, dispatched to the experts and combined again, [rank]: what came, and what came
/// back.
template <class Dispatch, class Combine>
[[nodiscard]] auto moved(Dispatch move_there, Combine move_back) {
  return support::on_all_ranks(3, [&](fssdp::thread_communicator& comm) {
    auto const layout = fssdp::block_layout{{.experts = 6, .ranks = 3}};
    auto const where = fssdp::everywhere{}(layout);
    auto const mine = std::vector<std::uint64_t>{1, 0, 3, 2, 0, 4};
    auto const counts = fssdp::gather_counts(comm, mine);
    auto const routing = fssdp::even_routing{where};
    auto const plan = fssdp::token_plan{counts, routing, comm.rank()};
    auto const sent = drawn_rows<fssdp::bf16>{plan.sent_rows(), width,
                                              static_cast<std::uint64_t>(comm.rank().value()) + 7};
    auto received = empty_rows<fssdp::bf16>{plan.received_rows()};
    auto back = empty_rows<fssdp::bf16>{plan.sent_rows()};
    move_there(comm, plan, sent.view(), received.view());
    move_back(comm, plan, received.view(), back.view());
    auto bits = std::vector<std::uint16_t>{};
    for (auto const* of : {&received.memory, &back.memory})
      for (auto const value : *of) bits.push_back(std::bit_cast<std::uint16_t>(value));
    return bits;
  });
}

}  // namespace

TEST_CASE("rows of any type are sorted by expert and brought back to the same bits") {
  auto const order = drawn_order();
  for (auto const type : fssdp::all_dtypes)
    fssdp::with_element(type, [&]<class T>(std::type_identity<T>) {
      CAPTURE(name_of(type));
      auto const tokens = drawn_rows<T>{12, width, 1};
      auto sorted = empty_rows<T>{24};
      auto expected_sorted = empty_rows<T>{24};
      permute(order, any_rows_of(tokens.view()), any_rows_of(sorted.view()));
      permute(order, tokens.view(), expected_sorted.view());
      REQUIRE(sorted == expected_sorted);

      auto const rows = drawn_rows<T>{24, width, 2};
      auto sums = empty_rows<T>{12};
      auto expected_sums = empty_rows<T>{12};
      permute_backward(order, any_rows_of(rows.view()), any_rows_of(sums.view()));
      permute_backward(order, rows.view(), expected_sums.view());
      REQUIRE(sums == expected_sums);

      check_weighted<T, float>();
      check_weighted<T, double>();
      check_weighted<T, fssdp::bf16>();
      check_weighted<T, T>();
    });
}

TEST_CASE("rows of any type travel as they are") {
  auto const any =
      moved([](auto& comm, auto const& plan, auto from,
               auto to) { fssdp::dispatch(comm, plan, any_rows_of(from), any_rows_of(to)); },
            [](auto& comm, auto const& plan, auto from, auto to) {
              fssdp::combine(comm, plan, any_rows_of(from), any_rows_of(to));
            });
  auto const typed = moved([](auto& comm, auto const& plan, auto from,
                              auto to) { fssdp::dispatch(comm, plan, from, to); },
                           [](auto& comm, auto const& plan, auto from, auto to) {
                             fssdp::combine(comm, plan, from, to);
                           });
  REQUIRE(any == typed);
  REQUIRE(any[0].size() > 10 * width);
}

TEST_CASE("rows of any type that do not fit are refused by name") {
  auto const order = drawn_order();
  auto const tokens = drawn_rows<float>{12, width, 1};
  auto rows = empty_rows<float>{24};
  auto const from = any_const_rows{any_rows_of(tokens.view())};
  auto const to = any_rows{any_rows_of(rows.view())};
  auto const refuses = [](auto const& call, char const* text) {
    REQUIRE_THROWS_AS(call(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(call(), mentions(text));
  };
  auto other = to;
  other.type = dtype::bf16;
  refuses([&] { permute(order, from, other); }, "permute: from is fp32; expected bf16");
  other.type = static_cast<dtype>(7);
  refuses([&] { permute(order, from, other); }, "dtype 7");
  other = to;
  other.count = 23;
  refuses([&] { permute(order, from, other); }, "to is [23, 5]; expected [24, 5]");

  auto const weights = drawn_rows<float>{24, 1, 1};
  auto const one_each = any_const_rows{any_rows_of(weights.view(1))};
  auto sums = empty_rows<float>{12};
  auto const back = any_rows{any_rows_of(sums.view())};
  auto few = one_each;
  few.count = 23;
  refuses([&] { unpermute(order, few, to, back); }, "weights is [23, 1]; expected [24, 1]");
  auto alias = any_const_rows{dtype::fp32, rows.memory.data(), 24, 1};
  refuses(
      [&] {
        unpermute(order, alias, any_const_rows{dtype::fp32, tokens.memory.data(), 24, 2},
                  any_rows{dtype::fp32, rows.memory.data(), 12, 2});
      },
      "weights and to share memory");
  auto d_weights = empty_rows<double>{24, 1};
  refuses(
      [&] { unpermute_backward(order, one_each, to, from, to, any_rows_of(d_weights.view(1))); },
      "d_weights is fp64; expected fp32");
}
