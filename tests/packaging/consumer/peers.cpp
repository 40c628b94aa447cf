// SPDX-License-Identifier: Apache-2.0
/// Ranks that are devices of one process: CUDA's runtime comes with the target, and links.
#include "fssdp/comm/peer.hpp"

#include <cstdlib>

int main(int arguments, char**) {
  if (arguments < 2) return EXIT_SUCCESS;  // there may be no device
  fssdp::peer_world{}.run([](fssdp::communicator auto& comm) { comm.synchronize(); });
}
