// SPDX-License-Identifier: Apache-2.0
/// The matrix products of moe_gpt, by the BLAS that it is built with and by its own loop.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/initialise.hpp"
#include "moe_gpt/matmul.hpp"
#include "moe_gpt/own_loop.hpp"

using namespace moe_gpt;

namespace {

template <class Real>
struct problem {
  std::size_t m, n, k;
  std::vector<Real> a, b, c;  // a [m, k], b [k, n], c [m, n]: strided rows

  static constexpr std::size_t gap = 3;

  problem(std::size_t rows, std::size_t columns, std::size_t inner, std::uint64_t seed)
      : m{rows}, n{columns}, k{inner}, a(m * (k + gap)), b(k * (n + gap)), c(m * (n + gap)) {
    fill_normal(std::span{a}, 0, 1, seed);
    fill_normal(std::span{b}, 0, 1, seed + 1);
    fill_normal(std::span{c}, 0, 1, seed + 2);
  }
  matrix<Real const> left() const { return {a.data(), m, k, k + gap}; }
  matrix<Real const> right() const { return {b.data(), k, n, n + gap}; }

  /// What c should become, in double.
  [[nodiscard]] std::vector<double> expected(update how) const {
    auto result = std::vector<double>(c.begin(), c.end());
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        auto sum = how == update::accumulate ? result[i * (n + gap) + j] : 0.0;
        for (std::size_t p = 0; p < k; ++p)
          sum += double{a[i * (k + gap) + p]} * double{b[p * (n + gap) + j]};
        result[i * (n + gap) + j] = sum;
      }
    return result;
  }
};

template <class Real>
[[nodiscard]] std::vector<Real> transposed(matrix<Real const> in) {
  auto out = std::vector<Real>(in.rows * in.columns);
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.columns; ++j) out[j * in.rows + i] = in.row(i)[j];
  return out;
}

template <class Real>
[[nodiscard]] double distance(std::vector<Real> const& c, std::vector<double> const& expected) {
  auto worst = 0.0;
  for (std::size_t i = 0; i < c.size(); ++i)
    worst = std::max(worst, std::abs(double{c[i]} - expected[i]));
  return worst;
}

}  // namespace

TEMPLATE_TEST_CASE("matrix products: all forms, sizes and strides", "[moe_gpt]", float, double) {
  using Real = TestType;
  auto const tolerance = sizeof(Real) == 4 ? 2e-4 : 1e-11;
  auto const how = GENERATE(update::write, update::accumulate);
  auto seed = std::uint64_t{1};
  for (auto const m : std::initializer_list<std::size_t>{0, 1, 5, 6, 13, 32})
    for (auto const n : std::initializer_list<std::size_t>{1, 3, 8, 17, 40})
      for (auto const k : std::initializer_list<std::size_t>{0, 1, 7, 64, 300}) {
        CAPTURE(m, n, k, seed);
        auto const start = problem<Real>{m, n, k, seed += 3};
        auto const expected = start.expected(how);
        auto const check = [&](auto const& multiply) {
          auto c = start.c;
          multiply(matrix<Real>{c.data(), m, n, n + problem<Real>::gap});
          CHECK(distance(c, expected) < tolerance);  // also that nothing between the rows changed
        };
        auto const at = transposed(start.left());
        auto const bt = transposed(start.right());
        auto const a_transposed = matrix<Real const>{at.data(), k, m, m};
        auto const b_transposed = matrix<Real const>{bt.data(), n, k, k};
        check([&](matrix<Real> c) { multiply_ab(start.left(), start.right(), c, how); });
        check([&](matrix<Real> c) { multiply_abt(start.left(), b_transposed, c, how); });
        check([&](matrix<Real> c) { multiply_atb(a_transposed, start.right(), c, how); });
        if (how == update::write) continue;
        auto const plain = [](matrix<Real const> x) {
          return detail::factor<Real>{x.data, x.stride, 1};
        };
        auto const turned = [](matrix<Real const> x) {
          return detail::factor<Real>{x.data, 1, x.stride};
        };
        for (auto const left : {plain(start.left()), turned(a_transposed)})
          for (auto const right : {plain(start.right()), turned(b_transposed)}) {
            check([&](matrix<Real> c) { detail::multiply_portably(left, right, k, c); });
            if (detail::has_avx2())
              check([&](matrix<Real> c) { detail::multiply_avx2(left, right, k, c); });
          }
      }
}

TEST_CASE("matrix products: shapes that do not agree are refused", "[moe_gpt]") {
  auto values = std::vector<float>(12);
  auto const all = std::span{values};
  CHECK_THROWS_WITH(as_matrix(all, 3, 5), mentions("3 x 5") && mentions("12"));
  auto const a = as_matrix(all, 3, 4);
  auto const b = as_matrix(all, 4, 3);
  CHECK_THROWS_AS(multiply_ab(a, a, b, update::write), std::invalid_argument);
  CHECK_THROWS_AS(multiply_abt(a, b, b, update::write), std::invalid_argument);
  CHECK_THROWS_AS(multiply_atb(a, b, b, update::write), std::invalid_argument);
}
