// SPDX-License-Identifier: Apache-2.0
/// One line of the table from ranks that are devices of this process, or share them.
#pragma once

#include "measure.hpp"

namespace perf {

/// @throws std::invalid_argument if the program was built without CUDA, or finds no device
void require_cuda();
/// @throws std::invalid_argument if the program was built without NCCL, or finds fewer devices than
///         ranks
void require_nccl(int ranks);

/// Ranks that read each other's memory; those that are more than the devices share them in turn.
/// @pre require_cuda() is content
[[nodiscard]] result measure_cuda(job const& what, options const& of);
/// Ranks over NCCL, a device for each.
/// @pre require_nccl() is content
[[nodiscard]] result measure_nccl(job const& what, options const& of);

}  // namespace perf
