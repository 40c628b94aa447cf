// SPDX-License-Identifier: Apache-2.0
/// Memory that other processes can read: it is memory, it can be opened, and it is given back.
#include "fssdp/comm/shared_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/dice.hpp"
#include "support/needs.hpp"

using fssdp::shared_memory;

static_assert(!std::is_copy_constructible_v<shared_memory>);

namespace {

constexpr auto page_of_memory = std::size_t{4096};

[[nodiscard]] std::span<std::byte> block_of(shared_memory& memory, std::size_t bytes) {
  return {static_cast<std::byte*>(memory.allocate(bytes)), bytes};
}
[[nodiscard]] bool all_are(std::span<std::byte const> bytes, int value) {
  return std::ranges::all_of(bytes, [&](std::byte it) { return it == std::byte(value); });
}

}  // namespace

TEST_CASE("a process that has opened shared memory sees what is written into it") {
  if (auto const lacks = support::lacks_readable_memory(); !lacks.empty()) return skip_test(lacks);
  auto memory = shared_memory{1U << 20U};
  auto const view = fssdp::detail::open_shared_memory(memory.name());
  REQUIRE(view.bytes().size() > memory.capacity());
  auto const one = block_of(memory, 10'000);
  auto const other = block_of(memory, 1);
  REQUIRE(all_are(one, 0));
  std::ranges::fill(one, std::byte{7});
  std::ranges::fill(other, std::byte{8});
  auto const seen = [&](std::span<std::byte const> bytes) {
    return view.bytes().subspan(memory.offset_of(bytes).value(), bytes.size());
  };
  REQUIRE(all_are(seen(one), 7));
  REQUIRE(all_are(seen(one.subspan(5000, 100)), 7));
  REQUIRE(all_are(seen(other), 8));
  auto const was = seen(one);
  memory.deallocate(one.data(), one.size());
  REQUIRE(all_are(was, 0));  // the pages have been given back
  REQUIRE(all_are(seen(other), 8));
  memory.deallocate(other.data(), other.size());
}

TEST_CASE("bytes outside of shared memory have no offset in it") {
  if (auto const lacks = support::lacks_shared_memory(); !lacks.empty()) return skip_test(lacks);
  auto memory = shared_memory{page_of_memory};
  auto const block = block_of(memory, page_of_memory);
  auto const elsewhere = std::vector<std::byte>(10);
  REQUIRE(memory.offset_of(block) == page_of_memory);
  REQUIRE(memory.offset_of(elsewhere) == std::nullopt);
  REQUIRE(memory.offset_of({block.data() + 1, block.size()}) == std::nullopt);
  REQUIRE(memory.offset_of({block.data() + block.size(), 0}) == 2 * page_of_memory);
  memory.deallocate(block.data(), block.size());
}

TEST_CASE("shared memory that does not exist, or another kind of it, cannot be opened") {
  if (auto const lacks = support::lacks_readable_memory(); !lacks.empty()) return skip_test(lacks);
  auto memory = shared_memory{page_of_memory};
  auto const open = [](fssdp::detail::shared_memory_name const& name) {
    return !fssdp::detail::open_shared_memory(name).bytes().empty();
  };
  auto const name = memory.name();
  REQUIRE(open(name));
  REQUIRE(!open({}));
  auto other = name;
  other.mark ^= 1U;
  REQUIRE(!open(other));
  other = name;
  other.bytes += page_of_memory;  // longer than it is: to touch it would be a signal
  REQUIRE(!open(other));
  other = name;
  other.descriptor = 1 << 20;
  REQUIRE(!open(other));
  other = name;
  other.process = 0;
  REQUIRE(!open(other));
}

TEST_CASE("shared memory of no capacity, of too little, and a coarse alignment are refused") {
  if (auto const lacks = support::lacks_shared_memory(); !lacks.empty()) return skip_test(lacks);
  REQUIRE_THROWS_AS(shared_memory{0}, fssdp::argument_error);
  REQUIRE_THROWS_AS(shared_memory{SIZE_MAX}, fssdp::argument_error);
  auto memory = shared_memory{10 * page_of_memory};
  REQUIRE_THROWS_AS(memory.allocate(1, 2 * page_of_memory), fssdp::argument_error);
  auto const half = block_of(memory, 5 * page_of_memory);
  REQUIRE_THROWS_WITH(memory.allocate(6 * page_of_memory),
                      mentions("24576 bytes besides 20480") && mentions("a capacity of 40960"));
  auto const rest = block_of(memory, 5 * page_of_memory);
  REQUIRE_THROWS_AS(memory.allocate(1), fssdp::argument_error);
  REQUIRE(memory.bytes() == memory.capacity());
  memory.deallocate(half.data(), half.size());
  memory.deallocate(rest.data(), rest.size());
  REQUIRE(memory.bytes() == 0);
}

TEST_CASE(
    "blocks of shared memory never overlap, are zero, and leave one whole when all are back") {
  if (auto const lacks = support::lacks_shared_memory(); !lacks.empty()) return skip_test(lacks);
  auto memory = shared_memory{1U << 22U};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto blocks = std::vector<std::span<std::byte>>{};
    auto const give_one_back = [&] {
      auto const i = static_cast<std::size_t>(draw.between(0, static_cast<int>(blocks.size()) - 1));
      auto const block = blocks[i];
      auto const right = all_are(block, static_cast<int>(block.size() % 251 + 1));
      memory.deallocate(block.data(), block.size());
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      return right;
    };
    for (int turn = 0; turn < 200; ++turn) {
      if (!blocks.empty() && (draw.chance(45) || blocks.size() == 20)) {
        REQUIRE(give_one_back());
        continue;
      }
      auto const block = block_of(memory, static_cast<std::size_t>(draw.between(1, 40'000)));
      REQUIRE(all_are(block, 0));
      std::ranges::fill(block, std::byte(block.size() % 251 + 1));
      blocks.push_back(block);
    }
    while (!blocks.empty()) REQUIRE(give_one_back());
    REQUIRE(memory.bytes() == 0);
    auto const whole = block_of(memory, memory.capacity());
    memory.deallocate(whole.data(), whole.size());
  }
}

TEST_CASE("threads share shared memory") {
  if (auto const lacks = support::lacks_shared_memory(); !lacks.empty()) return skip_test(lacks);
  auto memory = shared_memory{1U << 24U};
  auto wrong = std::vector<int>(4);
  {
    auto threads = std::vector<std::jthread>{};
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::size_t turn = 1; turn <= 200; ++turn) {
          auto const sizes = std::vector<std::size_t>{turn * 10};
          auto buffer = fssdp::expert_buffer<int>{3, sizes, &memory};
          auto const tensor = buffer.tensors()[0];
          auto const all = std::span{tensor.data, 3 * sizes[0]};
          std::ranges::fill(all, static_cast<int>(t));
          for (auto const value : all) wrong[t] += value == static_cast<int>(t) ? 0 : 1;
        }
      });
  }
  REQUIRE(wrong == std::vector<int>(4));
  REQUIRE(memory.bytes() == 0);
}
