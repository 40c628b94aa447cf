// SPDX-License-Identifier: Apache-2.0
/// Results on standard output.
#pragma once

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace program {

/// Whether all that was printed has been taken: a full disk tells so only when the buffer goes out.
/// If not, says so on standard error.
[[nodiscard]] inline bool output_was_taken(char const* program) {
  auto const failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed_before) return true;
  auto const cause = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  std::fprintf(stderr, "%s: cannot write to standard output%s; results are missing there\n",
               program, cause.c_str());
  return false;
}

}  // namespace program
