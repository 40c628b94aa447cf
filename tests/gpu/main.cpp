// SPDX-License-Identifier: Apache-2.0
/// Catch2, version 2, with one header and nothing to link; all that is allocated from here on is
/// memory that devices can read.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "gpu/pinned_memory.hpp"

int main(int arguments, char** values) {
  auto const pinned = gpu_tests::pinned_memory{std::size_t{1} << 30U};
  return Catch::Session().run(arguments, values);
}
