// SPDX-License-Identifier: Apache-2.0
/// A whole training run, as one call.
#pragma once

#include <functional>

#include "options.hpp"
#include "report.hpp"
#include "text.hpp"

namespace moe_gpt {

/// Trains on all ranks, each a thread, and returns the report of rank 0. `observe` is called after
/// every step, in the thread of rank 0.
/// @throws whatever the first rank that failed has thrown
[[nodiscard]] run_record train(options const& chosen, corpus const& text,
                               std::function<void(step_record const&)> const& observe);

}  // namespace moe_gpt
