// SPDX-License-Identifier: Apache-2.0
/// copy_bytes copies what it is given and nothing beside it, however it lies in memory.
#include "fssdp/memory/copy_bytes.hpp"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"

namespace {

constexpr auto line = fssdp::detail::cache_line;
constexpr auto guard = std::byte{0xa5};

/// Two pieces of memory that begin at a cache line, random bytes in one, guards in the other.
struct two_pieces {
  std::size_t bytes;
  fssdp::detail::aligned_memory from = fssdp::detail::allocate_aligned(bytes);
  fssdp::detail::aligned_memory to = fssdp::detail::allocate_aligned(bytes);

  explicit two_pieces(std::size_t size) : bytes{size} {
    auto draw = support::dice{bytes};
    for (std::size_t i = 0; i < bytes; ++i) from.get()[i] = std::byte(draw.between(0, 255));
    std::fill_n(to.get(), bytes, guard);
  }

  /// Copies `size` bytes with `copy` and looks at all bytes of the target; then puts the guards
  /// back.
  template <class Copy>
  [[nodiscard]] bool arrives(std::size_t at, std::size_t source, std::size_t size, Copy copy) {
    copy(std::span{to.get() + at, size}, std::span<std::byte const>{from.get() + source, size});
    auto const is_guard = [](std::byte value) { return value == guard; };
    auto const well = std::all_of(to.get(), to.get() + at, is_guard) &&
                      std::equal(to.get() + at, to.get() + at + size, from.get() + source) &&
                      std::all_of(to.get() + at + size, to.get() + bytes, is_guard);
    std::fill_n(to.get() + at, size, guard);
    return well;
  }
};

void alone(std::span<std::byte> to, std::span<std::byte const> from) {
  fssdp::copy_bytes(to, from);
}
/// However small, past the caches.
void among_many(std::span<std::byte> to, std::span<std::byte const> from) {
  fssdp::copy_bytes(to, from, fssdp::detail::past_caches);
}

}  // namespace

TEST_CASE("every small size arrives, wherever source and target begin") {
  auto memory = two_pieces{6 * line};
  auto wrong = 0;
  for (std::size_t size = 0; size <= 4 * line + 1; ++size)
    for (std::size_t at : {0U, 1U, 8U, 63U})
      for (std::size_t source : {0U, 1U, 4U, 17U, 63U})
        wrong += memory.arrives(at, source, size, alone) ? 0 : 1;
  REQUIRE(wrong == 0);
}

TEST_CASE("copies that bypass the caches are complete, and write nothing beside the target") {
  auto memory = two_pieces{7 * line};
  auto wrong = 0;
  for (std::size_t size = 0; size <= 5 * line; ++size)
    for (std::size_t at = 0; at < line; at += size % 2 == 0 ? 1 : 7)
      for (std::size_t source : {std::size_t{0}, at, std::size_t{13}, line})
        wrong += memory.arrives(at, source, size, among_many) ? 0 : 1;
  REQUIRE(wrong == 0);
}

TEST_CASE("copies around the size from which they go past the caches") {
  constexpr auto most = fssdp::detail::past_caches;
  auto memory = two_pieces{most + 4 * line};
  auto wrong = 0;
  for (std::size_t size : {most - 1, most, most + 1, most + 63, most + 64, most + 65})
    for (std::size_t at : {0U, 1U, 63U})
      for (std::size_t source : {0U, 1U, 32U})
        wrong += memory.arrives(at, source, size, alone) ? 0 : 1;
  REQUIRE(wrong == 0);
}

TEST_CASE("zero bytes can be copied from null to null") {
  REQUIRE_NOTHROW(alone({}, {}));
  REQUIRE_NOTHROW(among_many({}, {}));
}

TEST_CASE("a copy is visible to another thread after synchronization") {
  constexpr auto size = fssdp::detail::past_caches + 100;
  auto wrong = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    auto memory = two_pieces{size};
    auto done = std::atomic{false};
    auto reader = std::jthread{[&] {
      done.wait(false, std::memory_order_acquire);
      wrong += std::equal(memory.to.get(), memory.to.get() + size, memory.from.get()) ? 0 : 1;
    }};
    fssdp::copy_bytes({memory.to.get(), size}, {memory.from.get(), size});
    done.store(true, std::memory_order_release);
    done.notify_one();
  }
  REQUIRE(wrong == 0);
}
