// SPDX-License-Identifier: Apache-2.0
/// One line of the table from ranks that are processes.
#pragma once

#include <optional>

#include "measure.hpp"

namespace perf {

/// The options with the machine as it is: its nodes, and what its links attain in this run. Called
/// by every process.
[[nodiscard]] options on_this_machine(options of, process_team& team);

/// Called by every process.
/// @param of from on_this_machine
/// @return nothing on processes other than 0
/// @throws std::invalid_argument if the baseline is none of MPI
[[nodiscard]] std::optional<result> measure_processes(job const& what, options const& of,
                                                      process_team& team);

}  // namespace perf
