// SPDX-License-Identifier: Apache-2.0
/// Owning per-expert memory: shape, zeroes, alignment, growth.
#include "fssdp/core/expert_buffer.hpp"

#include <array>
#include <cstdint>
#include <utility>

#include "catch.hpp"
#include "fssdp/core/dtype.hpp"

using fssdp::expert_buffer;

static_assert(std::movable<expert_buffer<float>>);
static_assert(!std::copyable<expert_buffer<float>>);

TEMPLATE_TEST_CASE("a buffer has its shape, zeroed, each tensor at a cache line", "", float, double,
                   fssdp::bf16) {
  auto const sizes = std::array<std::size_t, 3>{3, 1, 17};
  auto buffer = expert_buffer<TestType>{5, sizes};
  REQUIRE(buffer.slots() == 5);
  REQUIRE(buffer.tensors().size() == 3);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    auto const tensor = buffer.tensors()[k];
    REQUIRE(tensor.elements == sizes[k]);
    REQUIRE(tensor.stride == sizes[k]);
    REQUIRE(reinterpret_cast<std::uintptr_t>(tensor.data) % 64 == 0);
    for (std::size_t slot = 0; slot < tensor.slots; ++slot)
      for (auto const value : tensor[slot]) REQUIRE(static_cast<float>(value) == 0.0F);
    for (std::size_t other = 0; other < k; ++other)
      REQUIRE(!fssdp::detail::overlap(tensor, buffer.tensors()[other]));
  }
}

TEST_CASE("a buffer can be empty") {
  REQUIRE(expert_buffer<float>{}.slots() == 0);
  REQUIRE(expert_buffer<float>{}.tensors().empty());
  auto const sizes = std::array<std::size_t, 1>{4};
  auto const buffer = expert_buffer<float>{0, sizes};
  REQUIRE(buffer.slots() == 0);
  REQUIRE(buffer.bytes() == 0);
  REQUIRE(buffer.tensors().size() == 1);
}

TEST_CASE("a buffer allocates only to grow") {
  auto const sizes = std::array<std::size_t, 2>{16, 32};
  auto buffer = expert_buffer<float>{4, sizes};
  auto const* const before = buffer.tensors()[0].data;
  auto const bytes = buffer.bytes();
  buffer.resize(2);
  REQUIRE(buffer.slots() == 2);
  REQUIRE(buffer.bytes() == bytes);
  buffer.resize(4);
  REQUIRE(buffer.tensors()[0].data == before);
  buffer.resize(8);
  REQUIRE(buffer.slots() == 8);
  REQUIRE(buffer.bytes() == 2 * bytes);
  REQUIRE(std::as_const(buffer).tensors()[1].data == buffer.tensors()[1].data);
}

TEST_CASE("a moved buffer keeps its memory in place") {
  auto const sizes = std::array<std::size_t, 1>{16};
  auto buffer = expert_buffer<float>{4, sizes};
  auto const* const data = buffer.tensors()[0].data;
  auto const moved = std::move(buffer);
  REQUIRE(moved.tensors()[0].data == data);
}
