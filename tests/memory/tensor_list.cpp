// SPDX-License-Identifier: Apache-2.0
/// Per-expert memory without its types: slots, lists that outlive the views they were made from,
/// and what overlaps.
#include "fssdp/memory/tensor_list.hpp"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/memory/expert_buffer.hpp"

using fssdp::expert_tensor;
using fssdp::detail::overlap;
using fssdp::detail::overlaps_itself;
using fssdp::detail::tensor_list;
using fssdp::detail::tensor_sizes;
using fssdp::detail::tensor_view;

namespace {

[[nodiscard]] tensor_view view_of(expert_tensor<int> const& tensor) {
  return tensor_list{tensor}.all().front();
}

/// So many tensors of 1, 2, ... elements, each of two slots.
[[nodiscard]] std::vector<expert_tensor<double>> growing_tensors(std::vector<double>& memory,
                                                                 std::size_t count) {
  memory.resize(count * (count + 1));
  auto tensors = std::vector<expert_tensor<double>>{};
  auto* next = memory.data();
  for (std::size_t k = 1; k <= count; ++k)
    tensors.push_back({std::exchange(next, next + 2 * k), 2, k});
  return tensors;
}

}  // namespace

TEST_CASE("a slot begins at data + slot * stride, whatever the type") {
  auto memory = std::array<double, 12>{};
  auto const tensor = expert_tensor<double>{memory.data(), 3, 2, 4};
  auto const view = tensor_list{tensor}.all().front();
  REQUIRE(static_cast<void*>(view[2].data) == memory.data() + 8);
  REQUIRE(view[2].count == 2);
  REQUIRE(view[2].bytes().size() == 2 * sizeof(double));
  REQUIRE(static_cast<void*>(view[1].part(1, 1).data) == memory.data() + 5);
}

TEST_CASE("a list of any length has its own copy of the views") {
  for (std::size_t count : {0U, 1U, 6U, 7U, 20U}) {
    CAPTURE(count);
    auto memory = std::vector<double>{};
    auto tensors = growing_tensors(memory, count);
    auto const expected = tensors;
    auto const list = tensor_list{tensors};
    auto const copy = list;
    tensors.assign(count, {});
    for (auto const* const each : {&list, &copy}) {
      REQUIRE(each->all().size() == count);
      auto const sizes = tensor_sizes{each->all()};
      REQUIRE(sizes.size() == count);
      for (std::size_t k = 0; k < count; ++k) {
        REQUIRE(static_cast<void*>(each->all()[k].data) == expected[k].data);
        REQUIRE(sizes[k] == k + 1);
      }
    }
  }
}

TEST_CASE("sizes are read from a list of numbers, too") {
  auto const numbers = std::vector<std::size_t>{5, 7};
  auto const sizes = tensor_sizes{std::span{numbers}};
  REQUIRE(sizes.size() == 2);
  REQUIRE(sizes[1] == 7);
}

TEST_CASE("tensors overlap if any of their slots do") {
  auto memory = std::array<int, 16>{};
  auto const tensor = [&](std::size_t first, std::size_t slots, std::size_t elements,
                          std::size_t stride) {
    return view_of({memory.data() + first, slots, elements, stride});
  };
  auto const whole = tensor(0, 4, 4, 4);
  REQUIRE(overlap(whole, whole));
  REQUIRE(overlap(whole, tensor(15, 1, 1, 1)));
  REQUIRE(!overlap(tensor(0, 2, 4, 4), tensor(8, 2, 4, 4)));
  SECTION("interleaved slots share nothing") {
    REQUIRE(!overlap(tensor(0, 4, 2, 4), tensor(2, 4, 2, 4)));
    REQUIRE(overlap(tensor(0, 4, 2, 4), tensor(1, 4, 2, 4)));
  }
  SECTION("slots that lie one by one share what they share") {
    auto const places = std::array<int*, 3>{memory.data() + 12, memory.data(), memory.data() + 4};
    auto const scattered = view_of({.slots = 3, .elements = 4, .places = places.data()});
    REQUIRE(overlap(scattered, whole));
    REQUIRE(overlap(tensor(14, 1, 1, 1), scattered));
    REQUIRE(!overlap(scattered, tensor(8, 1, 4, 4)));
    REQUIRE(!overlaps_itself(scattered));
    REQUIRE(overlaps_itself(view_of({.slots = 3, .elements = 5, .places = places.data()})));
    REQUIRE(!overlaps_itself(whole));
    REQUIRE(overlaps_itself(tensor(0, 4, 4, 3)));
  }
  SECTION("what is empty shares nothing") {
    REQUIRE(!overlap(whole, tensor(0, 0, 4, 4)));
    REQUIRE(!overlap(whole, tensor(0, 4, 0, 0)));
    REQUIRE(!overlap(whole, view_of({})));
  }
}
