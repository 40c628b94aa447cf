// SPDX-License-Identifier: Apache-2.0
/// The least that shows that a target is found: its headers, and threads to link.
#include <atomic>

#include "fssdp/comm/thread.hpp"

int main() {
  auto seen = std::atomic<int>{0};
  fssdp::thread_world{3}.run([&](auto& comm) { seen += comm.size() == 3 ? 1 : 0; });
  return seen == 3 ? 0 : 1;
}
