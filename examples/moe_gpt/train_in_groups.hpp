// SPDX-License-Identifier: Apache-2.0
/// Makes groups of the ranks of a communicator, if that is asked for, and trains.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "any_survivable.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "options.hpp"
#include "report.hpp"
#include "train_on.hpp"

namespace moe_gpt {

/// The options of one group: its share of ranks, nodes and sequences, a folder of its own for
/// checkpoints.
[[nodiscard]] inline options of_one_group(options chosen, int group) {
  chosen.group = group;
  if (!chosen.save.empty()) {
    std::filesystem::create_directories(chosen.save);
    chosen.save /= folder_of_group(group);
  }
  chosen.ranks /= chosen.groups;
  chosen.nodes = chosen.nodes > chosen.groups ? chosen.nodes / chosen.groups : 1;
  chosen.batch /= chosen.groups;
  return chosen;
}

/// Trains with communicators of its own for experts and plans.
template <class Comm>
[[nodiscard]] run_record train_with_duplicates(Comm& comm, rank_job job) {
  auto experts = comm.duplicate();
  auto plans = comm.duplicate();
  job.plans = fssdp::communicator_ref{plans};
  return train_on(fssdp::communicator_ref{comm}, fssdp::communicator_ref{experts}, job);
}

template <fssdp::splittable_communicator Comm>
[[nodiscard]] run_record train_in_groups(Comm& comm, rank_job const& job) {
  if (job.chosen.mirror_every > 0) {
    auto any = any_survivable{comm};
    return train_mirrored(any, job);
  }
  if (job.chosen.groups == 1) return train_with_duplicates(comm, job);
  auto const groups = fssdp::hybrid_groups{
      {.groups = job.chosen.groups, .ranks_per_group = comm.size() / job.chosen.groups}};
  auto two = fssdp::split(comm, groups);
  auto exchanges = two.between.duplicate();
  auto const chosen = of_one_group(job.chosen, two.between.rank().value());
  return train_with_duplicates(two.inside, {.chosen = chosen,
                                            .text = job.text,
                                            .trace = job.trace,
                                            .observe = job.observe,
                                            .memory = job.memory,
                                            .planner = job.planner,
                                            .between = fssdp::communicator_ref{two.between},
                                            .exchanges = fssdp::communicator_ref{exchanges}});
}

}  // namespace moe_gpt
