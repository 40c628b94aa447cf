// SPDX-License-Identifier: Apache-2.0
/// The training loop: what one rank does, step by step. train.hpp runs it on all of them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "adamw.hpp"
#include "batch.hpp"
#include "between_groups.hpp"
#include "blas.hpp"
#include "checkpoint.hpp"
#include "evaluate.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "gpt.hpp"
#include "load_rule.hpp"
#include "materialization_rule.hpp"
#include "offloaded.hpp"
#include "options.hpp"
#include "placement_rule.hpp"
#include "report.hpp"
#include "sharding_rule.hpp"
#include "text.hpp"
#include "topology_of.hpp"
#include "train_on.hpp"
#include "wire.hpp"

namespace moe_gpt {

inline constexpr auto max_gradient_norm = 1.0;

/// The fullest rank over the average if every token had gone to the owner of its expert; mean over
/// the layers.
template <class Real>
[[nodiscard]] double load_at_owners(gpt<Real>& model) {
  auto mean = 0.0;
  auto const& layouts = model.experts().layouts();
  for (auto const l : fssdp::first_n<fssdp::layer_id>(layouts.layers())) {
    auto const& layout = layouts.layer(l);
    auto at_owners = std::vector<std::uint64_t>(static_cast<std::size_t>(layout.ranks()));
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
      at_owners[layout.owner(expert).index()] += model.blocks()[l.index()].loads[expert.index()];
    mean += fssdp::max_over_mean(at_owners) / layouts.layers();
  }
  return mean;
}

/// Moves experts to other owners, if that pays for the loads that are expected.
/// @param groups that change owners alike; null: there is one
/// @return the bytes that have got another owner, over all ranks of a group
template <class Real>
std::uint64_t reshard(gpt<Real>& model, sharding_rule const& sharding, between_groups* groups) {
  auto const& layouts = model.experts().layouts();
  auto loads = std::vector<fssdp::expert_loads>{};
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(layouts.layers()))
    loads.push_back(model.experts().expected_loads(layer));
  if (groups != nullptr) loads = groups->mean(std::move(loads));
  auto const next = sharding.if_it_pays(layouts, loads);
  if (!next.has_value()) return 0;
  auto moving = std::uint64_t{0};
  for (auto const chunk : fssdp::all_chunks(*next))
    moving += next->owner(chunk) == layouts.owner(chunk) ? 0 : 1;
  if (groups != nullptr) {
    groups->drain(owned(model.arena().shard().weights(), model.dense().shard().weights()));
    groups->reshard(*next);
  }
  model.reshard(*next);
  auto bytes = std::uint64_t{0};  // of a chunk, with its moments
  for (auto const& tensor : model.arena().shard().moves()) bytes += tensor.elements;
  return moving * bytes;
}

/// Averages the gradients of what this rank owns over groups.
template <class Real>
void average(between_groups& groups, gpt<Real>& model, double rate, double scale) {
  auto loads = std::vector<fssdp::expert_loads>{};
  for (auto const& block : model.blocks()) loads.push_back(block.loads);
  groups.average(owned(model.arena().shard().gradients(), model.dense().shard().gradients()), rate,
                 scale, loads);
}

/// What all ranks of all groups have sent to other groups since this one had sent so much.
template <fssdp::communicator Comm>
[[nodiscard]] std::uint64_t all_bytes_since(between_groups const& groups, Comm& comm,
                                            std::uint64_t before) {
  return static_cast<std::uint64_t>(groups.groups()) *
         fssdp::all_reduce(comm, std::array{groups.bytes_sent() - before})[0];
}

/// Trains on one rank.
/// @param comm what tokens, dense parameters and sums go through
/// @param streamed another communicator of the same ranks, for experts' parameters and gradients;
///        bound to a stream, they move while the ranks compute
/// @return what there is to report; on rank 0 with the text that the model has written
template <class Real, fssdp::communicator Comm, fssdp::communicator Streamed>
[[nodiscard]] run_record train_rank(Comm& comm, Streamed& streamed, rank_job const& job) {
  auto const& chosen = job.chosen;
  auto const& text = job.text;
  single_threaded_blas();
  auto const shape = shape_of(chosen);
  auto const topo = topology_of(chosen);
  auto const solve = placement_rule{chosen, topo};
  auto const sharding = sharding_rule{chosen, topo, solve};
  auto const sequences = static_cast<std::size_t>(chosen.batch);  // of this group
  auto const scale =
      batch_scale{.global_tokens = sequences * shape.seq, .balance = chosen.aux_loss};
  auto const layouts = sharding.at_first();
  auto saved = resumed_run{chosen, text};
  auto const files = files_for(chosen);
  auto materialization = materialization_for(chosen, layouts, job.trace);
  materialization.memory = job.memory;
  if (chosen.share_plans) materialization.share_plans = job.plans;
  auto const coding = coded_as(chosen.wire);
  auto model = gpt<Real>{shape,
                         chosen.seed,
                         streamed,
                         saved.owners(layouts),
                         {.placement = solve,
                          .predictor = predictor_for(chosen),
                          .planner = job.planner,
                          .gather_coding = coding.gather,
                          .reduce_coding = coding.reduce},
                         materialization,
                         owned_memory(chosen, files.get(), job.memory)};
  auto record = run_record{};
  auto groups = std::optional<between_groups>{};
  if (job.between.has_value()) {
    groups.emplace(group_communicators{fssdp::communicator_ref{comm}, *job.between, *job.exchanges},
                   chosen, model.arena().layouts(), comm.rank(), model.dense().layout().elements());
    if (!saved.exists())
      groups->begin(owned(model.arena().shard().weights(), model.dense().shard().weights()));
  }
  auto* const of_groups = groups.has_value() ? &*groups : nullptr;
  auto const count_of_groups = groups.has_value() ? groups->groups() : 1;
  auto const first = groups.has_value() ? static_cast<std::size_t>(groups->group()) * sequences : 0;
  auto const is_first_rank = comm.rank() == fssdp::rank_id{0} && first == 0;

  for (int step = saved.bring(comm, model, of_groups); step < chosen.steps; ++step) {
    auto const start = std::chrono::steady_clock::now();
    auto const moved = sharding.is_due(step) ? reshard(model, sharding, of_groups) : 0;
    model.dense().gather(comm);
    auto loss = 0.0;
    for (int m = 0; m < chosen.micro_batches; ++m) {
      auto const part = slice_of(sequences, m, chosen.micro_batches);
      auto const batch = share_of(part.count, comm.rank(), comm.size(), [&](std::size_t i) {
        return text.training(static_cast<std::uint64_t>(step), first + part.first + i);
      });
      loss += model.forward_backward(
          comm, batch.inputs, batch.targets, scale, {m, chosen.micro_batches},
          chosen.calibrate ? calibration_rule::on : calibration_rule::off);
    }
    auto const metrics = model.experts().step();
    model.dense().reduce(comm);
    auto const adamw =
        adamw_options{.learning_rate = learning_rate_at(step, chosen.steps, chosen.lr)};
    auto const rate = adamw.learning_rate;
    auto const sent_before = groups.has_value() ? groups->bytes_sent() : 0;
    auto const sends_momentum = groups.has_value() && groups->sends_momentum();
    if (groups.has_value() && groups->averages_gradients() && !sends_momentum)
      average(*groups, model, rate, 1);

    auto const squares =
        model.dense().shard().squared_gradients() + model.arena().shard().squared_gradients();
    auto totals =
        fssdp::all_reduce(comm, std::vector{squares, loss, metrics.exposed_seconds,
                                            metrics.gather_seconds + metrics.reduce_seconds});

    auto const clip = std::min(1.0, max_gradient_norm / std::sqrt(totals[0]));
    if (sends_momentum) {
      average(*groups, model, rate, clip);
      model.dense().descend(adamw);
      model.arena().descend(adamw);
    } else {
      model.dense().step(adamw, step + 1, clip);
      model.arena().step(adamw, step + 1, clip);
    }
    auto between_bytes = std::uint64_t{0};
    if (groups.has_value()) {
      groups->end_step(owned(model.arena().shard().weights(), model.dense().shard().weights()),
                       step + 1, rate);
      totals = groups->mean(totals);
      between_bytes = all_bytes_since(*groups, comm, sent_before);
    }

    auto const seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record.steps.push_back(
        {.step = step + 1,
         .loss = totals[1] / static_cast<double>(scale.global_tokens),
         .tokens_per_second = static_cast<double>(scale.global_tokens) * count_of_groups / seconds,
         .load_max_over_mean_ep = load_at_owners(model),
         .load_max_over_mean = metrics.load_max_over_mean,
         .gathered_bytes = metrics.gathered_bytes,
         .reduced_bytes = metrics.reduced_bytes,
         .between_bytes = between_bytes,
         .moved_bytes = moved,
         .exposed_seconds = totals[2] / comm.size(),
         .communication_seconds = totals[3] / comm.size(),
         .experts = metrics});
    record.peak_replica_bytes =
        std::max(record.peak_replica_bytes,
                 metrics.replica_slots_peak * parameters_of_expert(shape) * sizeof(Real));
    if (is_first_rank) job.observe(record.steps.back());
    if (is_save_due(chosen, step + 1)) save(comm, model, of_groups, chosen, text, step + 1);
  }

  if (groups.has_value()) {
    auto const sent_before = groups->bytes_sent();
    groups->finish(owned(model.arena().shard().weights(), model.dense().shard().weights()));
    record.steps.back().between_bytes += all_bytes_since(*groups, comm, sent_before);
  }
  if (files != nullptr)
    record.offloaded_bytes = fssdp::all_reduce(comm, std::array{files->bytes()}).front();
  model.dense().gather(comm);
  record.parameters = model.parameters();
  record.heldout_loss = heldout_loss(comm, model, text, sequences);
  record.sample = write_text(comm, model, text, shape.seq, chosen.seed,
                             static_cast<std::size_t>(chosen.sample));
  model.experts().step();
  return record;
}

}  // namespace moe_gpt
