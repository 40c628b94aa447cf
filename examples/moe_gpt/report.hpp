// SPDX-License-Identifier: Apache-2.0
/// The record of a run: its figures, step by step, and a sample of the model's text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fssdp/runtime/iteration_metrics.hpp"

namespace moe_gpt {

/// Ranks were lost, and the others have gone on.
struct recovery_record {
  std::vector<int> lost;    ///< by their numbers at first
  int ranks = 0;            ///< that are left
  int step = 0;             ///< that they go on from
  int steps_again = 0;      ///< that had been done since, or begun
  double seconds = 0;       ///< from the first error until all is in place again
  std::uint64_t bytes = 0;  ///< that have moved between ranks
};

/// The figures of one step, over all ranks.
struct step_record {
  int step = 0;     ///< from 1
  double loss = 0;  ///< nats per byte
  double tokens_per_second = 0;
  double load_max_over_mean_ep = 1;  ///< fullest device over the average, had no expert a replica
  double load_max_over_mean = 1;     ///< the same as it was
  std::uint64_t gathered_bytes = 0;  ///< experts' parameters that moved
  std::uint64_t reduced_bytes = 0;   ///< experts' gradients that moved
  std::uint64_t between_bytes = 0;   ///< that all ranks have sent to other groups
  std::uint64_t moved_bytes = 0;     ///< experts and moments that got another owner
  double exposed_seconds = 0;        ///< ranks waited for experts to move; mean over ranks
  double communication_seconds = 0;  ///< experts moved; mean over ranks
  fssdp::iteration_metrics experts = {};
  std::vector<recovery_record> recoveries = {};  ///< since the step before was done
};

/// Bytes as the model has read and written them.
struct written_text {
  std::string prompt;
  std::string continuation;
};

/// The figures of a run.
struct run_record {
  std::uint64_t parameters = 0;
  double heldout_loss = 0;               ///< nats per byte
  std::uint64_t peak_replica_bytes = 0;  ///< on the rank that has most
  std::uint64_t offloaded_bytes = 0;     ///< in files, over all ranks
  std::vector<step_record> steps = {};
  written_text sample = {};
  bool is_of_first_rank = false;  ///< of all, or of those that are left
  std::vector<recovery_record> recoveries = {};
  std::uint64_t mirrored_bytes = 0;  ///< that all ranks send when a step is mirrored
  double mirror_seconds = 0;         ///< that the first rank has waited for mirrors, in all
};

}  // namespace moe_gpt
