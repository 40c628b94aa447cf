// SPDX-License-Identifier: Apache-2.0
/// Whether a sum overwrites its output.
#pragma once

namespace fssdp {

/// What a reduction does to the contents of its output.
enum class write_mode { overwrite, accumulate };

}  // namespace fssdp
