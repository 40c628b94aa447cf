// SPDX-License-Identifier: Apache-2.0
/// Tests of ranks that read each other's memory: all that is allocated, but for small things, lies
/// where the others can read it. The program includes support/allocation_counter.hpp once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fssdp/comm/shared_memory.hpp"
#include "support/memory_source.hpp"
#include "support/needs.hpp"

namespace mpi_tests {

namespace detail {

constexpr auto small = std::size_t{256};

/// The memory, and what of it operator new has given out. It stays to the end of the process.
struct lent_blocks {
  fssdp::shared_memory memory{std::size_t{1} << 33U};
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;  // its nodes are small
};
inline lent_blocks* lent = nullptr;

inline void* take_lent(std::size_t alignment, std::size_t bytes) {
  if (bytes < small) return std::aligned_alloc(alignment, bytes);
  auto const lock = std::scoped_lock{lent->mutex};
  auto* const block = lent->memory.allocate(bytes, alignment);
  lent->blocks.emplace(block, bytes);
  return block;
}
inline void give_lent_back(void* block) {
  if (!lent->memory.offset_of({static_cast<std::byte*>(block), 0}).has_value())
    return std::free(block);
  auto const lock = std::scoped_lock{lent->mutex};
  auto const at = lent->blocks.find(block);
  lent->memory.deallocate(block, at->second);
  lent->blocks.erase(at);
}

}  // namespace detail

/// Whose memory is read in place, as FSSDP_TEST_LENDS says: "all", "some" or "none".
[[nodiscard]] inline std::string who_lends() {
  auto const* const said = std::getenv("FSSDP_TEST_LENDS");
  return said == nullptr ? "none" : said;
}

/// Ends the process with 77, which ctest calls skipped, if memory is to be read in place and cannot
/// be. To be called before MPI begins.
inline void exit_unless_memory_can_be_read() {
  if (who_lends() == "none") return;
  auto const lacks = support::lacks_readable_memory();
  if (lacks.empty()) return;
  std::cout << "this test is skipped: " << lacks << std::endl;
  std::exit(77);
}

/// What process `rank` lends: all that it allocates from the first call on, if FSSDP_TEST_LENDS is
/// "all", or "some" and the rank is even; else nothing, null.
[[nodiscard]] inline fssdp::shared_memory const* lent_memory(int rank) {
  auto const whose = who_lends();
  if (whose == "none" || (whose == "some" && rank % 2 != 0)) return nullptr;
  if (detail::lent == nullptr) {
    detail::lent = std::make_unique<detail::lent_blocks>().release();
    support::take_memory = detail::take_lent;
    support::give_memory_back = detail::give_lent_back;
  }
  return &detail::lent->memory;
}

}  // namespace mpi_tests
