// SPDX-License-Identifier: Apache-2.0
/// The threads of this process.
#pragma once

#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

namespace support {

/// How many there are; 0 where the system does not tell.
[[nodiscard]] inline long process_threads() {
  std::thread{[] {}}.join();  // with the first, a sanitizer may start one of its own
  auto failure = std::error_code{};
  auto const tasks = std::filesystem::directory_iterator{"/proc/self/task", failure};
  return failure ? 0 : static_cast<long>(std::distance(begin(tasks), end(tasks)));
}

/// The same once there are no more than `expected`, or after many tries: the system lists a thread
/// for a moment after it has been joined.
[[nodiscard]] inline long settled_process_threads(long expected) {
  auto now = process_threads();
  for (int tries = 0; tries < 100'000 && now > expected; ++tries) now = process_threads();
  return now;
}

}  // namespace support
