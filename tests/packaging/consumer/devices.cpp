// SPDX-License-Identifier: Apache-2.0
/// Ranks that are devices: CUDA's runtime and NCCL come with the target, and link.
#include "fssdp/comm/nccl.hpp"

#include <cstdlib>

int main(int arguments, char**) {
  if (arguments < 2) return EXIT_SUCCESS;  // there may be no device
  fssdp::nccl_world{}.run([](fssdp::communicator auto& comm) { comm.synchronize(); });
}
