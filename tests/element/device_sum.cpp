// SPDX-License-Identifier: Apache-2.0
/// What kernels compute, in a loop on the host: the bits of accumulate and convert.
#include "fssdp/element/device_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/device_conversion.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/small_integers.hpp"

using fssdp::accumulator_t;
using fssdp::bf16;
using fssdp::fp16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;

namespace {

using all_types = std::tuple<float, bf16, double, fp16, fp8_e4m3, fp8_e5m2>;

/// Elements that begin at a 16-byte boundary, or so many elements behind one.
template <class T>
class placed_elements {
 public:
  placed_elements(std::size_t size, std::size_t behind)
      : memory_(size + behind + 16 / sizeof(T)), behind_{behind}, size_{size} {}
  [[nodiscard]] T* data() {
    auto* at = memory_.data();
    while (!fssdp::detail::is_wide(at)) ++at;
    return at + behind_;
  }
  [[nodiscard]] std::span<T> all() { return {data(), size_}; }

 private:
  std::vector<T> memory_;
  std::size_t behind_;
  std::size_t size_;
};

[[nodiscard]] double rough_number(support::dice& draw) {
  return std::ldexp(draw.between(-1'000'000, 1'000'000), draw.between(-30, 5));
}
template <class T>
void fill(std::span<T> values, support::dice& draw) {
  for (auto& value : values) value = support::to<T>(rough_number(draw));
}

template <class Kernel>
void run(Kernel const& kernel) {
  for (std::size_t step = 0; step < kernel.steps(); ++step) kernel(step);
}

/// Whether a kernel sums so many operands as accumulate does.
/// @param partials_of_100 how many of 100 are partials, the others are sums
template <class T, class Out>
[[nodiscard]] bool sums_alike(support::dice& draw, std::size_t size, bool aligned, int count,
                              int partials_of_100) {
  using sum_type = accumulator_t<T>;
  auto const behind = [&] { return aligned ? 0 : static_cast<std::size_t>(draw.between(0, 3)); };
  auto partials = std::vector<placed_elements<T>>{};
  auto sums = std::vector<placed_elements<sum_type>>{};
  auto list = std::vector<fssdp::summand>{};
  partials.reserve(static_cast<std::size_t>(count));
  sums.reserve(static_cast<std::size_t>(count));
  auto task = fssdp::device_sum{};
  for (int i = 0; i < count; ++i) {
    if (draw.chance(partials_of_100)) {
      auto& values = partials.emplace_back(size, behind());
      fill(values.all(), draw);
      list.push_back({.partial = values.data()});
      task.operands[task.count++] = {values.data(), false};
    } else {
      auto& values = sums.emplace_back(size, behind());
      fill(values.all(), draw);
      list.push_back({.summed = values.data()});
      task.operands[task.count++] = {values.data(), true};
    }
  }
  auto expected = placed_elements<Out>{size, 0};
  fill(expected.all(), draw);
  auto out = placed_elements<Out>{size, behind()};
  std::ranges::copy(expected.all(), out.data());

  auto const how = draw.chance(50) ? fssdp::write_mode::overwrite : fssdp::write_mode::accumulate;
  auto const scale = static_cast<sum_type>(draw.chance(30) ? 1.0 : 1.0 / draw.between(1, 7));
  fssdp::accumulate<T>(list, expected.all(), scale, how);
  task.partials = fssdp::dtype_of<T>;
  task.results = fssdp::dtype_of<Out>;
  task.how = how;
  task.scale = scale;
  task.elements = size;
  task.out = out.data();
  auto const kernel = fssdp::detail::sum_kernel<T, Out>{task};
  run(kernel);
  return (!aligned || kernel.is_aligned()) &&
         std::memcmp(out.data(), expected.data(), size * sizeof(Out)) == 0;
}

template <class From, class To>
[[nodiscard]] bool converts_alike(support::dice& draw, std::size_t size, bool aligned) {
  auto from = placed_elements<From>{size, aligned ? std::size_t{0} : std::size_t{1}};
  auto expected = placed_elements<To>{size, 0};
  auto to = placed_elements<To>{size, 0};
  fill(from.all(), draw);
  fssdp::convert(std::span<From const>{from.all()}, expected.all());
  run(fssdp::detail::conversion_kernel<From, To>{
      {.elements = size, .from = from.data(), .to = to.data()}});
  return std::memcmp(to.data(), expected.data(), size * sizeof(To)) == 0;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a kernel gives the bits of the host, for any types, sizes and addresses",
                        "", all_types) {
  auto draw = support::dice{sizeof(TestType)};
  auto wrong = 0;
  for (int i = 0; i < support::some_instances; ++i)
    for (auto const aligned : {false, true}) {
      auto const size = static_cast<std::size_t>(draw.between(0, draw.chance(10) ? 700 : 40));
      auto const alike = [&]<class... Out>(std::tuple<Out...>) {
        return ((sums_alike<TestType, Out>(draw, size, aligned, draw.between(1, 9), 60) &&
                 converts_alike<TestType, Out>(draw, size, aligned)) &&
                ...);
      };
      wrong += alike(all_types{}) ? 0 : 1;
    }
  REQUIRE(wrong == 0);
}

TEMPLATE_LIST_TEST_CASE("a kernel gives the bits of the host, for any number and kinds of operands",
                        "", all_types) {
  auto draw = support::dice{sizeof(TestType) + 8};
  auto wrong = 0;
  for (int count = 1; count <= 17; ++count)
    for (auto const partials : {100, 0, 90, 50, 10})
      for (auto const aligned : {true, true, false}) {
        auto const size = static_cast<std::size_t>(draw.between(1, 60));
        auto const alike = [&]<class... Out>(std::tuple<Out...>) {
          return (sums_alike<TestType, Out>(draw, size, aligned, count, partials) && ...);
        };
        wrong += alike(all_types{}) ? 0 : 1;
      }
  REQUIRE(wrong == 0);
}

TEST_CASE("a kernel keeps the sign of zeros") {
  auto operands = std::vector<placed_elements<float>>{};
  auto task = fssdp::device_sum{};
  operands.reserve(5);
  auto out = placed_elements<float>{4, 0};
  task.elements = 4;
  task.out = out.data();
  for (task.count = 1; task.count <= 5; ++task.count) {
    auto& values = operands.emplace_back(std::size_t{4}, std::size_t{0});
    std::ranges::fill(values.all(), -0.0F);
    task.operands[task.count - 1] = {values.data(), false};
    run(fssdp::detail::sum_kernel<float, float>{task});
    REQUIRE(std::ranges::all_of(out.all(), [](float each) { return std::signbit(each); }));
  }
}
