// SPDX-License-Identifier: Apache-2.0
/// All iterations of a policy, on one device and over all of them.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "device_rank.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "job.hpp"
#include "measurement.hpp"

namespace step {

using layouts = fssdp::layer_stack<fssdp::table_layout>;

/// Who owns what when the first iteration begins, by the loads that it expects.
[[nodiscard]] layouts first_owners(job const& of);

/// What rank 0 knows of all iterations.
struct all_iterations {
  std::vector<iteration_record> records;
  std::vector<std::vector<layer_record>> layers;
  double bytes = 0;
  double replica_slots = 0;
  device::clock::time_point last_begin = {};
};

/// All iterations of one rank: one that warms up, then those that count.
/// @param result is filled on rank 0
void run_rank(links const& through, device& on, job const& of, shared_work& shared,
              layouts const& first, all_iterations& result);

/// What rank 0 has seen, beside the prediction.
[[nodiscard]] measurement summed_up(job const& of, all_iterations const& all);

/// Writes what has begun in the last iteration, for ui.perfetto.dev.
/// @throws std::runtime_error if the file cannot be written
void write_timeline(std::filesystem::path const& file,
                    std::span<fssdp::trace_recorder const> traces, device::clock::time_point begin);

}  // namespace step
