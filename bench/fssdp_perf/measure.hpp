// SPDX-License-Identifier: Apache-2.0
/// One line of the table.
#pragma once

#include <cstddef>
#include <optional>

#include "options.hpp"
#include "process_team.hpp"
#include "result.hpp"

namespace perf {

/// What is measured at once.
struct job {
  perf::collective collective;
  case_kind of_case;
  std::size_t bytes;  ///< of one expert, or of a block in the mean
};

/// @param team null unless ranks or baseline are processes; then called by every process
/// @return nothing on processes other than 0
[[nodiscard]] std::optional<result> measure(job const& what, options const& of, process_team* team);

}  // namespace perf
