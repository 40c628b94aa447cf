// SPDX-License-Identifier: Apache-2.0
/// Ranks of a process group: torch comes with the target.
#include "fssdp/comm/c10d.hpp"

#include <string>

int main() {
  auto tensors = fssdp::torch_tensors{};
  try {
    (void)fssdp::c10d_communicator{{}};
  } catch (fssdp::argument_error const& error) {
    return std::string{error.what()} == "c10d: no process group; expected one" ? 0 : 1;
  }
  return 1;
}
