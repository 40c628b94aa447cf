// SPDX-License-Identifier: Apache-2.0
/// The report of a run as a JSON file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "options.hpp"
#include "report.hpp"

namespace moe_gpt {

[[nodiscard]] nlohmann::ordered_json to_json(options const& chosen, run_record const& record);

/// Writes to chosen.json: a reader never sees half a file. A device, a pipe or a link stays what it
/// is, and is written through.
/// @throws std::invalid_argument where the directory is missing, std::runtime_error where the disk
/// refuses
void write_json(options const& chosen, run_record const& record);

}  // namespace moe_gpt
