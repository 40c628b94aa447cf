// SPDX-License-Identifier: Apache-2.0
/// Conversions and sums between dtypes known at run time: the bits of convert and accumulate.
#include "fssdp/element/runtime_work.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/small_integers.hpp"

namespace {

/// Calls visit(From{}, To{}) for all pairs of element types.
template <class Visit>
void for_all_pairs(Visit visit) {
  for (auto const from : fssdp::all_dtypes)
    for (auto const to : fssdp::all_dtypes)
      fssdp::with_element(from, [&]<class From>(std::type_identity<From>) {
        fssdp::with_element(to, [&]<class To>(std::type_identity<To>) { visit(From{}, To{}); });
      });
}

template <class T>
[[nodiscard]] bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Any bits: numbers of all sizes, infinities and NaNs.
template <class T>
[[nodiscard]] std::vector<T> any_bits(std::size_t size, support::dice& draw) {
  auto values = std::vector<T>(size);
  for (auto& byte : std::as_writable_bytes(std::span{values}))
    byte = static_cast<std::byte>(draw.between(0, 255));
  return values;
}
/// Numbers whose sums depend on the order in which they are formed.
template <class T>
[[nodiscard]] std::vector<T> rough_numbers(std::size_t size, support::dice& draw) {
  auto values = std::vector<T>(size);
  for (auto& value : values)
    value = support::to<T>(std::ldexp(draw.between(-1'000'000, 1'000'000), draw.between(-30, 5)));
  return values;
}

/// How many times a sum of so many operands has not the bits of accumulate.
template <class T, class Out>
[[nodiscard]] int wrong_sums(std::size_t size, std::size_t count, fssdp::write_mode how,
                             support::dice& draw) {
  using sum_type = fssdp::accumulator_t<T>;
  auto partials = std::vector<std::vector<T>>{};
  auto sums = std::vector<std::vector<sum_type>>{};
  auto list = std::vector<fssdp::summand>{};
  auto const sums_of_100 = draw.between(0, 2) * 50;
  for (std::size_t i = 0; i < count; ++i)
    if (draw.chance(sums_of_100))
      list.push_back({.summed = sums.emplace_back(rough_numbers<sum_type>(size, draw)).data()});
    else
      list.push_back({.partial = partials.emplace_back(rough_numbers<T>(size, draw)).data()});
  auto expected = rough_numbers<Out>(size, draw);
  auto found = expected;
  auto const behind = static_cast<std::size_t>(draw.between(0, 3));  // not at a cache line
  auto const first = std::min(behind, size);
  auto const scale = draw.chance(30) ? 1.0 : 1.0 / draw.between(1, 7);
  for (auto& operand : list)
    if (operand.partial != nullptr)
      operand.partial = static_cast<T const*>(operand.partial) + first;
    else
      operand.summed = static_cast<sum_type const*>(operand.summed) + first;
  fssdp::accumulate<T>(list, std::span{expected}.subspan(first), static_cast<sum_type>(scale), how);
  auto const sum = fssdp::detail::runtime_sum_of(fssdp::dtype_of<T>, fssdp::dtype_of<Out>);
  sum.on_host(sum, list, found.data() + first, size - first, scale, how);
  return same_bits(expected, found) ? 0 : 1;
}

constexpr auto modes = {fssdp::write_mode::overwrite, fssdp::write_mode::accumulate};

}  // namespace

TEST_CASE("a conversion found at run time gives the bits of convert") {
  auto draw = support::dice{11};
  auto wrong = 0;
  for_all_pairs([&]<class From, class To>(From, To) {
    for (auto const size : {0, 1, 255, 256, 257, 1000}) {
      auto const n = static_cast<std::size_t>(size);
      auto const from = any_bits<From>(n, draw);
      auto expected = any_bits<To>(n + 1, draw);
      auto found = expected;
      fssdp::convert(std::span<From const>{from}, std::span{expected}.first(n));
      auto const conversion =
          fssdp::detail::runtime_conversion(fssdp::dtype_of<From>, fssdp::dtype_of<To>);
      REQUIRE(conversion.changes_type() == !std::is_same_v<From, To>);
      if (!conversion.changes_type()) continue;
      conversion.on_host(conversion, from.data(), found.data(), n);
      wrong += same_bits(expected, found) ? 0 : 1;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("a sum found at run time gives the bits of accumulate") {
  auto draw = support::dice{12};
  auto wrong = 0;
  for_all_pairs([&]<class T, class Out>(T, Out) {
    for (std::size_t count = 1; count <= 9; ++count)
      for (auto const how : modes)
        wrong +=
            wrong_sums<T, Out>(static_cast<std::size_t>(draw.between(0, 900)), count, how, draw);
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("a single operand of the result's type, unscaled, is copied with all its bits") {
  auto draw = support::dice{14};
  auto wrong = 0;
  for_all_pairs([&]<class T, class Out>(T, Out) {
    if constexpr (std::is_same_v<T, Out> || std::is_same_v<fssdp::accumulator_t<T>, Out>) {
      auto const from = any_bits<Out>(700, draw);  // NaNs that signal among them
      auto const list = std::vector{std::is_same_v<T, Out> ? fssdp::summand{.partial = from.data()}
                                                           : fssdp::summand{.summed = from.data()}};
      auto typed = any_bits<Out>(700, draw);
      auto found = typed;
      fssdp::accumulate<T>(list, std::span{typed});
      auto const sum = fssdp::detail::runtime_sum_of(fssdp::dtype_of<T>, fssdp::dtype_of<Out>);
      sum.on_host(sum, list, found.data(), found.size(), 1, fssdp::write_mode::overwrite);
      wrong += same_bits(from, typed) && same_bits(from, found) ? 0 : 1;
    }
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("a large sum found at run time bypasses the caches, with the same bits") {
  auto draw = support::dice{13};
  auto wrong = 0;
  for_all_pairs([&]<class T, class Out>(T, Out) {
    if (!std::is_same_v<T, fssdp::bf16> && !std::is_same_v<T, double>) return;
    auto const size = fssdp::detail::large_sum / sizeof(Out) + 300;
    wrong += wrong_sums<T, Out>(size, 2, fssdp::write_mode::overwrite, draw);
  });
  REQUIRE(wrong == 0);
}
