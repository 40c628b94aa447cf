// SPDX-License-Identifier: Apache-2.0
/// The training loop: what one rank does, step by step. train.hpp runs it on all of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "adamw.hpp"
#include "batch.hpp"
#include "evaluate.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/counting.hpp"
#include "gpt.hpp"
#include "options.hpp"
#include "placement_rule.hpp"
#include "report.hpp"
#include "sharding_rule.hpp"
#include "text.hpp"

namespace moe_gpt {

inline constexpr auto max_gradient_norm = 1.0;

/// How full the devices were, averaged over the layers.
template <class Real, class Wire>
[[nodiscard]] layer_loads mean_loads(gpt<Real, Wire>& model) {
  auto mean = layer_loads{0, 0};
  for (auto& block : model.blocks()) {
    auto const layer = block.moe.balance();
    mean.as_ep += layer.as_ep / static_cast<double>(model.blocks().size());
    mean.as_is += layer.as_is / static_cast<double>(model.blocks().size());
  }
  return mean;
}

/// What the replicas of all layers take on the rank that has most of them.
template <class Real, class Wire, fssdp::communicator Comm>
[[nodiscard]] std::uint64_t replica_bytes(Comm& comm, gpt<Real, Wire>& model) {
  auto mine = std::vector{std::uint64_t{0}};
  for (auto& block : model.blocks()) mine[0] += block.moe.experts().replica_bytes();
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(comm.size()));
  fssdp::all_gather(comm, mine, all);
  return std::ranges::max(all);
}

/// Deals the experts out anew, if the loads that are expected ask for it.
template <class Real, class Wire, fssdp::communicator Comm>
void reshard(Comm& comm, gpt<Real, Wire>& model, sharding_rule const& sharding) {
  auto loads = std::vector<fssdp::expert_loads>{};
  for (auto& block : model.blocks()) loads.push_back(block.moe.experts().expected_loads());
  auto const next = sharding.by_loads(loads);
  if (next != model.arena().layouts()) model.reshard(comm, next);
}

/// Trains on one rank. `observe(step_record)` is called on rank 0 after every step.
/// Returns what there is to report; on rank 0 with the text that the model has written.
template <class Real, class Wire, fssdp::communicator Comm, class Observe>
[[nodiscard]] run_record train_rank(Comm& comm, options const& chosen, corpus const& text,
                                    Observe observe) {
  auto const shape = shape_of(chosen);
  auto const machine = fssdp::topology{{.nodes = chosen.nodes, .ranks = comm.size()}};
  auto const solve = placement_rule{chosen, machine};
  auto const sharding = sharding_rule{chosen, machine};
  auto const sequences = static_cast<std::size_t>(chosen.batch);
  auto const scale =
      batch_scale{.global_tokens = sequences * shape.seq, .balance = chosen.aux_loss};
  auto model = gpt<Real, Wire>{shape, chosen.seed, comm.rank(), machine, sharding.at_first()};
  auto experts_comm = fssdp::counting{comm};  // to count what the experts' parameters move
  auto record = run_record{};

  for (int step = 0; step < chosen.steps; ++step) {
    auto const start = std::chrono::steady_clock::now();
    auto const batch = share_of(sequences, comm.rank(), comm.size(), [&](std::size_t i) {
      return text.training(static_cast<std::uint64_t>(step), i);
    });

    experts_comm.reset();
    if (sharding.is_due(step)) reshard(experts_comm, model, sharding);
    auto const moved = experts_comm.counts().bytes_received;

    experts_comm.reset();
    model.dense().gather(comm);
    for (auto& block : model.blocks()) block.moe.experts().gather(experts_comm, solve);
    auto const gathered = experts_comm.counts().bytes_received;

    auto const loss = model.forward_backward(comm, batch.inputs, batch.targets, scale);

    experts_comm.reset();
    for (auto& block : model.blocks()) block.moe.experts().reduce(experts_comm);
    model.dense().reduce(comm);
    auto const reduced = experts_comm.counts().bytes_received;

    auto const squares =
        model.dense().shard().squared_gradients() + model.arena().shard().squared_gradients();
    auto const totals = fssdp::all_reduce(
        comm, std::vector{squares, loss, static_cast<double>(gathered),
                          static_cast<double>(reduced), static_cast<double>(moved)});

    auto const clip = std::min(1.0, max_gradient_norm / std::sqrt(totals[0]));
    auto const adamw =
        adamw_options{.learning_rate = learning_rate_at(step, chosen.steps, chosen.lr)};
    model.dense().step(adamw, step + 1, clip);
    model.arena().step(adamw, step + 1, clip);
    for (auto& block : model.blocks()) block.moe.experts().record(block.moe.loads());

    auto const seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    auto const loads = mean_loads(model);
    record.steps.push_back({.step = step + 1,
                            .loss = totals[1] / static_cast<double>(scale.global_tokens),
                            .tokens_per_second = static_cast<double>(scale.global_tokens) / seconds,
                            .load_max_over_mean_ep = loads.as_ep,
                            .load_max_over_mean = loads.as_is,
                            .gathered_bytes = static_cast<std::uint64_t>(totals[2]),
                            .reduced_bytes = static_cast<std::uint64_t>(totals[3]),
                            .moved_bytes = static_cast<std::uint64_t>(totals[4])});
    record.peak_replica_bytes = std::max(record.peak_replica_bytes, replica_bytes(comm, model));
    if (comm.rank() == fssdp::rank_id{0}) observe(record.steps.back());
  }

  model.dense().gather(comm);
  for (auto& block : model.blocks()) block.moe.experts().gather(comm, solve);
  record.parameters = model.parameters();
  record.heldout_loss = heldout_loss(comm, model, text, sequences);
  record.sample = write_text(comm, model, text, shape.seq, chosen.seed);
  return record;
}

}  // namespace moe_gpt
