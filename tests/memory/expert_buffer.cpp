// SPDX-License-Identifier: Apache-2.0
/// Owning per-expert memory: shape, zeroes, alignment, growth.
#include "fssdp/memory/expert_buffer.hpp"

#include <array>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <utility>

#include "catch.hpp"
#include "fssdp/element/dtype.hpp"
#include "support/counting_memory.hpp"

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
    if (k > 0) {
      auto const before = buffer.tensors()[k - 1];  // memory ascends
      REQUIRE(before[before.slots - 1].data() + before.elements <= tensor.data);
    }
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

TEST_CASE("more slots than memory can have are refused: a negative number, most often") {
  auto const sizes = std::array<std::size_t, 2>{3, 4};
  auto const negative = static_cast<std::size_t>(-1);
  REQUIRE_THROWS_AS((expert_buffer<float>{negative, sizes}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((expert_buffer<float>{negative, sizes}),
                      mentions("18446744073709551615 slots of 3 elements of 4 bytes"));
  REQUIRE_THROWS_AS(expert_buffer<float>::bytes_for(negative, sizes), fssdp::argument_error);
  auto const half = std::array<std::size_t, 2>{std::size_t{1} << 60, std::size_t{1} << 60};
  REQUIRE_THROWS_WITH(expert_buffer<float>::bytes_for(1, half),  // each fits, the sum does not
                      mentions("4611686018427387904 and 4611686018427387904 bytes"));
}

TEST_CASE("a resize that is refused changes nothing") {
  auto const sizes = std::array<std::size_t, 2>{3, 4};
  auto buffer = expert_buffer<float>{2, sizes};
  buffer.tensors()[1][1][3] = 7;
  auto const* const data = buffer.tensors()[1].data;
  auto const bytes = buffer.bytes();
  for (auto const slots : {static_cast<std::size_t>(-1), std::size_t{1} << 61}) {
    REQUIRE_THROWS_AS(buffer.resize(slots), fssdp::argument_error);
    REQUIRE(buffer.slots() == 2);
    REQUIRE(buffer.bytes() == bytes);
    REQUIRE(buffer.tensors()[1].data == data);
    REQUIRE(std::as_const(buffer).tensors()[1].slots == 2);
    REQUIRE(buffer.tensors()[1][1][3] == 7);
  }
}

TEST_CASE("bytes_for says what a buffer of that shape takes") {
  auto const sizes = std::array<std::size_t, 3>{3, 0, 17};
  for (std::size_t slots = 0; slots <= 20; ++slots)
    REQUIRE(expert_buffer<double>::bytes_for(slots, sizes) ==
            expert_buffer<double>{slots, sizes}.bytes());
}

TEST_CASE("a buffer allocates from its resource the bytes that it reports, and frees all of them") {
  auto const sizes = std::array<std::size_t, 2>{16, 33};
  auto memory = support::counting_memory{};
  {
    auto buffer = expert_buffer<float>{3, sizes, &memory};
    REQUIRE(buffer.resource() == &memory);
    REQUIRE(memory.allocations() == 1);
    REQUIRE(memory.bytes() == buffer.bytes());
    REQUIRE(memory.bytes() == expert_buffer<float>::bytes_for(3, sizes));
    buffer.resize(2);
    REQUIRE(memory.allocations() == 1);
    buffer.resize(9);
    REQUIRE(memory.allocations() == 2);
    REQUIRE(memory.bytes() == expert_buffer<float>::bytes_for(9, sizes));
    for (auto const& tensor : buffer.tensors())
      for (auto const value : tensor[8]) REQUIRE(value == 0);
    auto moved = std::move(buffer);
    REQUIRE(memory.allocations() == 2);
    REQUIRE(memory.bytes() == moved.bytes());
    moved = expert_buffer<float>{1, sizes};  // of ordinary memory
    REQUIRE(memory.bytes() == 0);
    REQUIRE(moved.resource() == std::pmr::new_delete_resource());
    auto late = expert_buffer<float>{0, sizes, &memory};
    REQUIRE(memory.allocations() == 2);
    late.resize(1);
    REQUIRE(memory.bytes() == late.bytes());
  }
  REQUIRE(memory.allocations() == 3);
  REQUIRE(memory.bytes() == 0);
  REQUIRE(memory.wrong() == 0);
}

TEST_CASE("a resource without memory leaves the buffer unchanged") {
  auto const sizes = std::array<std::size_t, 1>{16};
  auto memory = support::counting_memory{1000};
  auto buffer = expert_buffer<float>{4, sizes, &memory};
  buffer.tensors()[0][3][15] = 7;
  auto const* const data = buffer.tensors()[0].data;
  REQUIRE_THROWS_AS(buffer.resize(20), std::bad_alloc);
  REQUIRE(buffer.slots() == 4);
  REQUIRE(buffer.tensors()[0].data == data);
  REQUIRE(buffer.tensors()[0][3][15] == 7);
  REQUIRE(memory.bytes() == buffer.bytes());
  REQUIRE_THROWS_AS((expert_buffer<float>{20, sizes, &memory}), std::bad_alloc);
  REQUIRE_THROWS_WITH((expert_buffer<float>{20, sizes, nullptr}), mentions("the resource is null"));
  REQUIRE(memory.bytes() == buffer.bytes());
}
