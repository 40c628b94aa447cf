// SPDX-License-Identifier: Apache-2.0
/// The second translation unit of a consumer: what a header defines twice, the linker refuses.
#include <atomic>

#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"

int ranks_seen_by_the_other_file() {
  auto seen = std::atomic<int>{0};
  fssdp::thread_world{3}.run([&](auto& comm) { seen += comm.size() == 3 ? 1 : 0; });
  return seen;
}
