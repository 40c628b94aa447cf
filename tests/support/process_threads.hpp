// SPDX-License-Identifier: Apache-2.0
/// The threads of this process.
#pragma once

#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>

namespace support {

/// How many there are; nothing where the system does not tell.
[[nodiscard]] inline std::optional<long> process_threads() {
  auto failure = std::error_code{};
  auto const tasks = std::filesystem::directory_iterator{"/proc/self/task", failure};
  if (failure) return {};
  return std::distance(begin(tasks), end(tasks));
}

/// The same once there are no more than `expected`, or after many tries: the system lists a thread
/// for a moment after it has been joined.
[[nodiscard]] inline std::optional<long> settled_process_threads(std::optional<long> expected) {
  auto now = process_threads();
  for (int tries = 0; tries < 100'000 && now > expected; ++tries) {
    std::this_thread::yield();
    now = process_threads();
  }
  return now;
}

}  // namespace support
