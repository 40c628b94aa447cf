// SPDX-License-Identifier: Apache-2.0
/// Measures the iterations of a policy on emulated devices.
#pragma once

#include <chrono>
#include <filesystem>

#include "job.hpp"
#include "measurement.hpp"

namespace step {

/// Devices are threads of this process, links the ports of the emulated cluster.
/// @param timeline where the last iteration is written to, for ui.perfetto.dev; empty: nowhere
/// @throws std::runtime_error if a device finds wrong bytes; errors of the library
[[nodiscard]] measurement measure_threads(job const& what, std::chrono::milliseconds deadline,
                                          std::filesystem::path const& timeline = {});

}  // namespace step
