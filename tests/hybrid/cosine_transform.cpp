// SPDX-License-Identifier: Apache-2.0
/// The cosine transform of many runs at once, and which of its coefficients are kept, beside sums
/// and searches as the definitions have them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/hybrid/cosine_table.hpp"
#include "fssdp/hybrid/kept_coefficients.hpp"
#include "fssdp/hybrid/nth_magnitude.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/dice.hpp"
#include "support/groups_by_hand.hpp"

using fssdp::detail::cosine_table;
using fssdp::detail::kept_coefficients;
using fssdp::detail::lanes;
using floats = std::vector<float>;
using doubles = std::vector<double>;

namespace {

[[nodiscard]] double cosine(std::size_t length, std::size_t j, std::size_t n) {
  auto const scale = std::sqrt((j == 0 ? 1.0 : 2.0) / static_cast<double>(length));
  return scale * std::cos(std::numbers::pi * (static_cast<double>(n) + 0.5) *
                          static_cast<double>(j) / static_cast<double>(length));
}
/// Of a block [rows, columns].
[[nodiscard]] doubles transformed(doubles const& block, std::size_t rows, std::size_t columns) {
  auto along_rows = doubles(block.size());
  auto both = doubles(block.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t c = 0; c < columns; ++c)
        along_rows[r * columns + j] += block[r * columns + c] * cosine(columns, j, c);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t j = 0; j < rows; ++j)
      for (std::size_t r = 0; r < rows; ++r)
        both[j * columns + c] += along_rows[r * columns + c] * cosine(rows, j, r);
  return both;
}
[[nodiscard]] float small_number(support::dice& draw) {
  return static_cast<float>(draw.between(-1000, 1000)) / 256;
}
/// Index and value of all that is kept, by index.
[[nodiscard]] std::vector<std::pair<std::size_t, float>> contents(
    kept_coefficients const& of, std::span<std::byte const> payload) {
  auto all = std::vector<std::pair<std::size_t, float>>{};
  for (std::size_t n = 0; n < of.kept; ++n)
    all.emplace_back(of.index_at(payload, n), of.value_at(payload, n));
  std::ranges::sort(all);
  return all;
}
[[nodiscard]] std::vector<std::byte> payload_of(kept_coefficients const& of, floats const& block) {
  auto payload = std::vector<std::byte>(of.bytes(), std::byte{0xa5});
  auto magnitudes = floats(of.size);
  auto scratch = floats(of.size);
  of.put_largest(block, magnitudes, scratch, payload);
  return payload;
}

}  // namespace

TEST_CASE("runs of any length are transformed as the definition says") {
  auto draw = support::dice{3};
  for (auto const length : {1U, 2U, 3U, 4U, 6U, 7U, 12U, 17U, 48U, 63U, 64U, 100U, 256U}) {
    CAPTURE(length);
    auto x = floats(length * lanes);
    for (auto& value : x) value = small_number(draw);
    auto const before = x;
    auto found = floats(length * lanes);
    cosine_table{length}.transform(x, found);
    for (std::size_t l = 0; l < lanes; ++l) {
      auto run = doubles{};
      for (std::size_t n = 0; n < length; ++n) run.push_back(before[n * lanes + l]);
      auto const expected = transformed(run, 1, length);
      auto const norm = std::sqrt(static_cast<double>(length)) * 4;
      for (std::size_t j = 0; j < length; ++j)
        REQUIRE(std::abs(found[j * lanes + l] - expected[j]) <= 1e-6 * norm);
    }
  }
}

TEST_CASE("the n-th magnitude is that of all when they are sorted") {
  auto draw = support::dice{4};
  for (auto const size : {1U, 2U, 1023U, 1024U, 5000U}) {
    auto all = floats(size);
    for (auto& x : all)
      x = std::ldexp(static_cast<float>(draw.between(0, 300)), draw.between(-140, 100));
    if (size > 1000) all[7] = std::numeric_limits<float>::infinity();
    auto sorted = all;
    std::ranges::sort(sorted);
    auto scratch = floats(size);
    for (auto const n : {0U, size / 3, size / 2, size - 1}) {
      CAPTURE(size, n);
      REQUIRE(fssdp::detail::nth_magnitude(all, n, scratch) == sorted[n]);
    }
  }
}

TEST_CASE("larger magnitudes are kept, of equal ones the first, by either way of looking") {
  auto draw = support::dice{5};
  for (auto const& of :
       {kept_coefficients{1, 1}, kept_coefficients{8, 3}, kept_coefficients{8, 8},
        kept_coefficients{256, 5}, kept_coefficients{300, 40}, kept_coefficients{2000, 20}}) {
    CAPTURE(of.size, of.kept);
    auto together = floats(of.size * lanes);
    for (auto& x : together) x = static_cast<float>(draw.between(-5, 5));  // many are equal
    auto magnitudes = floats(of.size * lanes);
    auto payloads = std::vector(lanes, std::vector<std::byte>(of.bytes()));
    of.put_largest_of_lanes(together, magnitudes, lanes - 1,
                            [&](std::size_t l) { return std::span{payloads[l]}; });
    for (std::size_t l = 0; l + 1 < lanes; ++l) {
      auto block = floats{};
      auto order = std::vector<std::size_t>{};
      for (std::size_t i = 0; i < of.size; ++i) {
        block.push_back(together[i * lanes + l]);
        order.push_back(i);
      }
      std::ranges::stable_sort(order, std::greater{},
                               [&](std::size_t i) { return std::abs(block[i]); });
      auto expected = std::vector<std::pair<std::size_t, float>>{};
      for (std::size_t n = 0; n < of.kept; ++n) expected.emplace_back(order[n], block[order[n]]);
      std::ranges::sort(expected);
      REQUIRE(contents(of, payloads[l]) == expected);
      REQUIRE(contents(of, payload_of(of, block)) == expected);
    }
    REQUIRE(payloads.back() == std::vector<std::byte>(of.bytes()));
  }
}

TEST_CASE("a block whose coefficients are not finite is NaN at the first ones, and no other is") {
  auto const of = kept_coefficients{6, 2};
  for (auto const odd :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto together = floats(6 * lanes, 1.0F);
    together[4 * lanes + 3] = odd;
    auto magnitudes = floats(6 * lanes);
    auto payloads = std::vector(lanes, std::vector<std::byte>(of.bytes()));
    of.put_largest_of_lanes(together, magnitudes, lanes,
                            [&](std::size_t l) { return std::span{payloads[l]}; });
    for (std::size_t l = 0; l < lanes; ++l)
      for (std::size_t n = 0; n < 2; ++n) {
        CHECK(of.index_at(payloads[l], n) == n);
        CHECK(std::isnan(of.value_at(payloads[l], n)) == (l == 3));
      }
    CHECK(payload_of(of, {1, 1, 1, 1, odd, 1}) == payloads[3]);
  }
}

TEST_CASE("an index that is too large is read as the last") {
  auto const of = kept_coefficients{6, 1};
  auto payload = std::vector<std::byte>(of.bytes(), std::byte{0xff});
  CHECK(of.index_at(payload, 0) == 5);
}

TEST_CASE("blocks of any shape: the largest coefficients are sent, and become elements again") {
  using options = fssdp::top_dct_compressor::options;
  auto draw = support::dice{6};
  for (auto const& option :
       {options{.rows = 1, .columns = 20, .kept = 3}, options{.rows = 1, .columns = 64, .kept = 40},
        options{.rows = 1, .columns = 7, .kept = 7}, options{.rows = 5, .columns = 6, .kept = 4},
        options{.rows = 18, .columns = 33, .kept = 30},
        options{.rows = 64, .columns = 64, .kept = 32}}) {
    auto const& [rows, columns, kept] = option;
    auto const shape = fssdp::unit_shape{rows, columns};
    CAPTURE(rows, columns, kept);
    auto groups = support::groups_by_hand{fssdp::top_dct_compressor{option}, shape, 2};
    auto inputs = std::vector<floats>(2, floats(shape.elements()));
    for (auto& input : inputs)
      for (auto& x : input) x = small_number(draw);
    groups.exchange(inputs);
    auto const of = kept_coefficients{shape.elements(), kept};
    auto sums = doubles(shape.elements());
    auto senders = doubles(shape.elements());
    for (std::size_t g = 0; g < 2; ++g) {
      auto const all = transformed({inputs[g].begin(), inputs[g].end()}, rows, columns);
      auto order = doubles{};
      for (auto const c : all) order.push_back(std::abs(c));
      std::ranges::sort(order, std::greater{});
      for (auto const& [index, value] : contents(of, groups.payload(g, 0))) {
        REQUIRE(std::abs(value - all[index]) <= 1e-4);
        REQUIRE(std::abs(value) >= order[of.kept - 1] - 1e-4);
        sums[index] += value;
        senders[index] += 1;
      }
    }
    for (std::size_t n = 0; n < shape.elements(); ++n) {
      auto expected = 0.0;
      for (std::size_t i = 0; i < sums.size(); ++i)
        if (senders[i] > 0)
          expected += sums[i] / senders[i] * cosine(rows, i / columns, n / columns) *
                      cosine(columns, i % columns, n % columns);
      REQUIRE(std::abs(groups.average(1)[n] - expected) <= 1e-4);
    }
  }
}
