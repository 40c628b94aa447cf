// SPDX-License-Identifier: Apache-2.0
/// The first translation unit of a consumer; a second one includes the same headers.
#include <cstdio>

#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"

int ranks_seen_by_the_other_file();

int main() {
  std::printf("fssdp %s\n", fssdp::version_string.data());
  return fssdp::version_major >= 0 && ranks_seen_by_the_other_file() == 3 ? 0 : 1;
}
