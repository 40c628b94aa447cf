// SPDX-License-Identifier: Apache-2.0
/// How much memory the process takes.
#pragma once

#include <cstdio>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FSSDP_TESTS_ARE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FSSDP_TESTS_ARE_SANITIZED 1
#endif
#endif

namespace support {

/// Pages of the process that are in memory; 0 where the system does not tell, and under a
/// sanitizer, which keeps memory that the program has given back.
[[nodiscard]] inline long resident_pages() {
  auto pages = 0L;
#ifndef FSSDP_TESTS_ARE_SANITIZED
  if (auto* const file = std::fopen("/proc/self/statm", "r")) {
    auto size = 0L;
    if (std::fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
    std::fclose(file);
  }
#endif
  return pages;
}

}  // namespace support
