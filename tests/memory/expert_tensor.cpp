// SPDX-License-Identifier: Apache-2.0
/// Views of per-expert memory: strides, what counts as a buffer, what overlaps.
#include "fssdp/memory/expert_tensor.hpp"

#include <array>
#include <vector>

#include "catch.hpp"
#include "fssdp/memory/expert_buffer.hpp"

using fssdp::expert_buffer;
using fssdp::expert_tensor;

static_assert(fssdp::expert_memory<expert_buffer<float>>);
static_assert(fssdp::expert_memory<expert_buffer<float> const>);
static_assert(fssdp::expert_memory<expert_tensor<float const>>);
static_assert(fssdp::expert_memory<std::array<expert_tensor<float>, 2>>);
static_assert(fssdp::expert_memory<std::vector<expert_tensor<float>> const>);
static_assert(!fssdp::expert_memory<std::vector<float>>);
static_assert(!fssdp::expert_memory<float>);
static_assert(std::is_same_v<fssdp::element_of<expert_buffer<double> const>, double>);
static_assert(std::is_same_v<fssdp::element_of<expert_tensor<float const>>, float>);
static_assert(!std::is_convertible_v<expert_tensor<float const>, expert_tensor<float>>);

TEST_CASE("slot s begins at data + s * stride") {
  auto memory = std::array<int, 12>{};
  auto const tensor = expert_tensor<int>{memory.data(), 3, 2, 4};
  REQUIRE(tensor[0].data() == memory.data());
  REQUIRE(tensor[2].data() == memory.data() + 8);
  REQUIRE(tensor[2].size() == 2);
  expert_tensor<int const> const reader = tensor;
  REQUIRE(reader[1].data() == memory.data() + 4);
}

TEST_CASE("without a stride the slots lie side by side") {
  auto memory = std::array<int, 6>{};
  auto const tensor = expert_tensor<int>{memory.data(), 3, 2};
  REQUIRE(tensor[1].data() == memory.data() + 2);
}

TEST_CASE("slots may lie one by one") {
  auto first = std::array<int, 2>{1, 2};
  auto second = std::array<int, 2>{3, 4};
  auto const places = std::array<int*, 2>{second.data(), first.data()};
  auto const tensor = expert_tensor<int>{.slots = 2, .elements = 2, .places = places.data()};
  REQUIRE(tensor[0].data() == second.data());
  expert_tensor<int const> const reader = tensor;
  REQUIRE(reader[1][1] == 2);
}

TEST_CASE("tensors_of sees one tensor or many") {
  auto memory = std::array<int, 6>{};
  auto const one = expert_tensor<int>{memory.data(), 3, 2};
  REQUIRE(fssdp::tensors_of(one).size() == 1);
  auto const two = std::array{one, one};
  REQUIRE(fssdp::tensors_of(two).size() == 2);
  auto const sizes = std::array<std::size_t, 3>{1, 2, 3};
  auto const buffer = expert_buffer<int>{2, sizes};
  REQUIRE(fssdp::tensors_of(buffer)[2].elements == 3);
}
