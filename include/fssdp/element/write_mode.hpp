// SPDX-License-Identifier: Apache-2.0
/// What a sum does to what is there.
#pragma once

namespace fssdp {

/// What a reduction does to its output.
enum class write_mode { overwrite, accumulate };

}  // namespace fssdp
