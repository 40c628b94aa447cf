// SPDX-License-Identifier: Apache-2.0
/// How much memory the process takes.
#pragma once

#include <cstdio>

namespace support {

/// Pages of the process that are in memory; 0 where the system does not tell.
[[nodiscard]] inline long resident_pages() {
  auto pages = 0L;
  if (auto* const file = std::fopen("/proc/self/statm", "r")) {
    auto size = 0L;
    if (std::fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages;
}

}  // namespace support
