// SPDX-License-Identifier: Apache-2.0
/// What kernels compute, in a loop on the host: the bits of accumulate and convert.
#include "fssdp/element/device_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/device_conversions.hpp"
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

/// Elements that begin at a 16-byte boundary, or at so many elements after one.
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

/// A sum that a kernel forms, and what it should leave.
template <class T, class Out>
class one_sum {
  using sum_type = accumulator_t<T>;

 public:
  /// Adds it to `to`: of so many operands.
  /// @param partials_of_100 how many of 100 are partials, the others are sums
  one_sum(fssdp::device_sums& to, support::dice& draw, std::size_t size, bool aligned, int count,
          int partials_of_100)
      : expected_{size, 0}, out_{size, behind(draw, aligned)} {
    fill(expected_.all(), draw);
    std::ranges::copy(expected_.all(), out_.data());
    to.begin(out_.data(), size);
    for (int i = 0; i < count; ++i)
      if (draw.chance(partials_of_100)) {
        auto& values = partials_.emplace_back(size, behind(draw, aligned));
        fill(values.all(), draw);
        list_.push_back({.partial = values.data()});
        to.add({values.data(), fssdp::device_sums::kind::partial});
      } else {
        auto& values = sums_.emplace_back(size, behind(draw, aligned));
        fill(values.all(), draw);
        list_.push_back({.summed = values.data()});
        to.add({values.data(), fssdp::device_sums::kind::sum});
      }
  }

  /// Whether accumulate gives the same bits.
  [[nodiscard]] bool is_right(double scale, fssdp::write_mode how) {
    fssdp::accumulate<T>(list_, expected_.all(), static_cast<sum_type>(scale), how);
    return std::memcmp(out_.data(), expected_.data(), expected_.all().size_bytes()) == 0;
  }

 private:
  [[nodiscard]] static std::size_t behind(support::dice& draw, bool aligned) {
    return aligned ? 0 : static_cast<std::size_t>(draw.between(0, 3));
  }

  placed_elements<Out> expected_;
  placed_elements<Out> out_;
  std::deque<placed_elements<T>> partials_;  // whose addresses stay
  std::deque<placed_elements<sum_type>> sums_;
  std::vector<fssdp::summand> list_;
};

/// Whether a kernel forms sums of so many operands as accumulate does, so many at once.
template <class T, class Out>
[[nodiscard]] bool sums_alike(support::dice& draw, std::size_t size, bool aligned, int count,
                              int partials_of_100, int at_once = 1) {
  auto task = fssdp::device_sums{};
  auto sums = std::deque<one_sum<T, Out>>{};
  for (int i = 0; i < at_once; ++i)
    sums.emplace_back(task, draw, i == 0 ? size : static_cast<std::size_t>(draw.between(0, 40)),
                      aligned, i == 0 ? count : draw.between(1, 4), partials_of_100);
  auto const how = draw.chance(50) ? fssdp::write_mode::overwrite : fssdp::write_mode::accumulate;
  auto const scale =
      static_cast<accumulator_t<T>>(draw.chance(30) ? 1.0 : 1.0 / draw.between(1, 7));
  task.partials = fssdp::dtype_of<T>;
  task.results = fssdp::dtype_of<Out>;
  task.how = how;
  task.scale = scale;
  auto const kernel = fssdp::detail::sum_kernel<T, Out>{task};
  run(kernel);
  return (!aligned || kernel.is_aligned()) &&
         std::ranges::all_of(sums, [&](auto& each) { return each.is_right(scale, how); });
}

/// Whether a kernel makes conversions as `convert` does, so many at once.
template <class From, class To>
[[nodiscard]] bool converts_alike(support::dice& draw, std::size_t size, bool aligned,
                                  std::size_t at_once = 1) {
  auto from = std::deque<placed_elements<From>>{};
  auto to = std::deque<placed_elements<To>>{};
  auto task = fssdp::device_conversions{};
  for (std::size_t i = 0; i < at_once; ++i) {
    auto const count = i == 0 ? size : static_cast<std::size_t>(draw.between(0, 40));
    auto& own = from.emplace_back(count, aligned ? std::size_t{0} : std::size_t{1});
    fill(own.all(), draw);
    task.add({own.data(), to.emplace_back(count, std::size_t{0}).data(), count});
  }
  run(fssdp::detail::conversion_kernel<From, To>{task});
  for (std::size_t i = 0; i < at_once; ++i) {
    auto expected = placed_elements<To>{from[i].all().size(), 0};
    fssdp::convert(std::span<From const>{from[i].all()}, expected.all());
    if (std::memcmp(to[i].data(), expected.data(), expected.all().size_bytes()) != 0) return false;
  }
  return true;
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

TEMPLATE_LIST_TEST_CASE("a kernel of many sums or conversions gives the bits of each", "",
                        all_types) {
  auto draw = support::dice{sizeof(TestType) + 16};
  auto wrong = 0;
  for (auto const at_once : {2, 3, 17, 32})
    for (auto const aligned : {true, false}) {
      auto const size = static_cast<std::size_t>(draw.between(0, 300));
      auto const alike = [&]<class... Out>(std::tuple<Out...>) {
        return ((sums_alike<TestType, Out>(draw, size, aligned, 3, 60, at_once) &&
                 converts_alike<TestType, Out>(draw, size, aligned,
                                               3 * static_cast<std::size_t>(at_once))) &&
                ...);
      };
      wrong += alike(all_types{}) ? 0 : 1;
    }
  REQUIRE(wrong == 0);
}

TEST_CASE("sums have room for so many, are alike where the same is done, and are appended") {
  auto sums = fssdp::device_sums{};
  auto others = fssdp::device_sums{};
  auto out = std::array<float, 2>{};
  auto const values = std::array{1.0F, 2.0F, 4.0F};
  REQUIRE(sums.has_room_for(fssdp::device_sums::most_operands));
  REQUIRE_FALSE(sums.has_room_for(fssdp::device_sums::most_operands + 1));
  REQUIRE_FALSE(sums.has_room_for(0, fssdp::device_sums::most + 1));
  sums.begin(&out[0], 1);
  sums.add({&values[0]});
  others.begin(&out[1], 1);
  others.add({&values[1]});
  others.add({&values[2], fssdp::device_sums::kind::sum});
  REQUIRE(sums.is_like(others));
  sums.append(others);
  REQUIRE(sums.has_room_for(fssdp::device_sums::most_operands - 3, fssdp::device_sums::most - 2));
  REQUIRE_FALSE(sums.has_room_for(fssdp::device_sums::most_operands - 2));
  run(fssdp::detail::sum_kernel<float, float>{sums});
  REQUIRE(out == std::array{1.0F, 6.0F});
  REQUIRE_FALSE(sums.decodes());
  others.scale = 2;
  REQUIRE_FALSE(sums.is_like(others));
  sums.clear();
  REQUIRE(sums.has_room_for(fssdp::device_sums::most_operands, fssdp::device_sums::most));
}

TEST_CASE("a kernel keeps the sign of zeros") {
  auto operands = std::vector<placed_elements<float>>{};
  auto task = fssdp::device_sums{};
  operands.reserve(5);
  auto out = placed_elements<float>{4, 0};
  task.begin(out.data(), 4);
  for (int count = 1; count <= 5; ++count) {
    auto& values = operands.emplace_back(std::size_t{4}, std::size_t{0});
    std::ranges::fill(values.all(), -0.0F);
    task.add({values.data()});
    run(fssdp::detail::sum_kernel<float, float>{task});
    REQUIRE(std::ranges::all_of(out.all(), [](float each) { return std::signbit(each); }));
  }
}
