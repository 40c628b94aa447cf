// SPDX-License-Identifier: Apache-2.0
/// The double for programs that are run by themselves.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu_double/gpu_double.hpp"

namespace gpu_double {

/// As many devices as DEVICES in the environment says. What the real libraries would not forgive is
/// told when the program ends.
/// @return whether it will be
[[nodiscard]] inline bool set_up_double() {
  auto const* const devices = std::getenv("DEVICES");
  reset({.devices = devices == nullptr ? 8 : std::stoi(devices), .only_device_memory = true});
  return std::atexit([] {
           for (auto const& violation : violations())
             std::fprintf(stderr, "violation: %s\n", violation.c_str());
         }) == 0;
}

}  // namespace gpu_double
