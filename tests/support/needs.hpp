// SPDX-License-Identifier: Apache-2.0
/// What a machine may lack that tests need: each function returns why a test is skipped here, or an
/// empty text.
#pragma once

#include <cstddef>
#include <string>
#include <system_error>

#include "fssdp/comm/shared_memory.hpp"
#include "support/resident_pages.hpp"

namespace support {

/// Memory that other processes can be given.
[[nodiscard]] inline std::string lacks_shared_memory() {
  try {
    auto const memory = fssdp::shared_memory{1};
    return {};
  } catch (std::system_error const& error) {
    return std::string{"no memory can be shared here: "} + error.what();
  }
}
/// The same, and that such memory can be opened.
[[nodiscard]] inline std::string lacks_readable_memory() {
  if (auto const lacks = lacks_shared_memory(); !lacks.empty()) return lacks;
  auto const memory = fssdp::shared_memory{1};
  auto const view = fssdp::detail::open_shared_memory(memory.name());
  return view.bytes().empty() ? "shared memory cannot be opened here; is there no /proc?" : "";
}
/// How much memory the process takes.
[[nodiscard]] inline std::string lacks_resident_pages() {
  return resident_pages() == 0
             ? "nothing says how much memory the program itself takes: no /proc, or a sanitizer"
             : "";
}
/// A program that is not slowed down by a sanitizer, for what takes long and finds nothing new there.
[[nodiscard]] inline std::string lacks_speed() {
#ifdef FSSDP_TESTS_ARE_SANITIZED
  return "under a sanitizer it takes long, and all that it does is done by other tests";
#else
  return {};
#endif
}
/// That what happens in a race can be looked at.
[[nodiscard]] inline std::string lacks_tolerance_of_races() {
#if defined(__SANITIZE_THREAD__)
  return "the thread sanitizer ends a program that races";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return "the thread sanitizer ends a program that races";
#endif
#endif
  return {};
}

}  // namespace support
