// SPDX-License-Identifier: Apache-2.0
/// The training loop: what one rank does, step by step. train.hpp runs it on all of them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
#include "model_mirror.hpp"
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

/// What a run has done so far.
struct run_so_far {
  run_record record = {};
  std::size_t told = 0;  ///< of the recoveries: so many have been told with a step
};

/// A rank that trains.
/// @tparam Comm what tokens, dense parameters and sums go through
/// @tparam Streamed another communicator of the same ranks, for experts' parameters and gradients;
///         bound to a stream, they move while the ranks compute
template <class Real, fssdp::communicator Comm, fssdp::communicator Streamed>
class rank_trainer {
 public:
  /// @param so_far training continues after these steps; outlives this
  /// @param mirror of the model, which outlives this; null: none
  rank_trainer(Comm& comm, Streamed& streamed, rank_job const& job, run_so_far& so_far,
               model_mirror<Real>* mirror = nullptr)
      : comm_{comm},
        job_{job},
        chosen_{job.chosen},
        text_{job.text},
        mirror_{mirror},
        so_far_{so_far},
        record_{so_far.record},
        shape_{shape_of(chosen_)},
        topo_{job.topo.ranks() > 0 ? job.topo : topology_of(chosen_)},
        solve_{chosen_, topo_},
        sharding_{chosen_, topo_, solve_},
        scale_{.global_tokens = sequences() * shape_.seq, .balance = chosen_.aux_loss},
        saved_{chosen_, text_},
        files_{files_for(chosen_)},
        coding_{coded_as(chosen_.wire)} {
    single_threaded_blas();
    auto const layouts = job.owners.has_value() ? *job.owners : sharding_.at_first();
    auto materialization = materialization_for(chosen_, layouts, job.trace);
    materialization.topology = topo_;
    materialization.memory = job.memory;
    if (chosen_.share_plans) materialization.share_plans = job.plans;
    model_.emplace(shape_, chosen_.seed, streamed, saved_.owners(layouts),
                   fssdp::materializer_policy{.placement = solve_,
                                              .predictor = predictor_for(chosen_),
                                              .planner = job.planner,
                                              .gather_coding = coding_.gather,
                                              .reduce_coding = coding_.reduce},
                   materialization, owned_memory(chosen_, files_.get(), job.memory));
    if (job.between.has_value()) {
      groups_.emplace(
          group_communicators{fssdp::communicator_ref{comm}, *job.between, *job.exchanges}, chosen_,
          model_->arena().layouts(), comm.rank(), model_->dense().layout().elements());
      if (!saved_.exists()) groups_->begin(weights());
    }
    record_.is_of_first_rank = comm.rank() == fssdp::rank_id{0} && first_sequence() == 0;
  }

  /// Trains to the last step.
  /// @param begun is called when the model is where the training goes on
  /// @post all that there is to report is there; on rank 0 with the text that the model has written
  void run(std::function<void(int step)> const& begun = {}) {
    auto step = mirror_ != nullptr && mirror_->goes_on().has_value()
                    ? mirror_->bring(*model_)
                    : saved_.bring(comm_, *model_, groups());
    if (mirror_ != nullptr) mirror_->begin(*model_, step);
    if (begun) begun(step);
    for (; step < chosen_.steps; ++step) train(step);
    if (mirror_ != nullptr) mirror_->finish();
    finish();
  }

 private:
  [[nodiscard]] between_groups* groups() { return groups_.has_value() ? &*groups_ : nullptr; }
  [[nodiscard]] auto weights() {
    return owned(model_->arena().shard().weights(), model_->dense().shard().weights());
  }
  /// Of this group.
  [[nodiscard]] std::size_t sequences() const { return static_cast<std::size_t>(chosen_.batch); }
  [[nodiscard]] std::size_t first_sequence() const {
    return groups_.has_value() ? static_cast<std::size_t>(groups_->group()) * sequences() : 0;
  }
  void at(int step, run_phase phase) const {
    if (job_.at) job_.at(step + 1, phase);
  }

  /// @param step how many have been done
  void train(int step) {
    auto const start = std::chrono::steady_clock::now();
    auto const moved = change_owners(step);
    at(step, run_phase::gather);
    model_->dense().gather(comm_);
    at(step, run_phase::forward);
    auto loss = 0.0;
    for (int m = 0; m < chosen_.micro_batches; ++m) {
      auto const part = slice_of(sequences(), m, chosen_.micro_batches);
      auto const batch = share_of(part.count, comm_.rank(), comm_.size(), [&](std::size_t i) {
        return text_.training(static_cast<std::uint64_t>(step), first_sequence() + part.first + i);
      });
      loss += model_->forward_backward(
          comm_, batch.inputs, batch.targets, scale_, {m, chosen_.micro_batches},
          chosen_.calibrate ? calibration_rule::on : calibration_rule::off,
          [&] { at(step, run_phase::backward); });
    }
    at(step, run_phase::reduce);
    auto const metrics = model_->experts().step();
    model_->dense().reduce(comm_);
    auto const adamw =
        adamw_options{.learning_rate = learning_rate_at(step, chosen_.steps, chosen_.lr)};
    auto const rate = adamw.learning_rate;
    auto const sent_before = groups_.has_value() ? groups_->bytes_sent() : 0;
    auto const sends_momentum = groups_.has_value() && groups_->sends_momentum();
    if (groups_.has_value() && groups_->averages_gradients() && !sends_momentum)
      average(*groups_, *model_, rate, 1);

    auto const squares =
        model_->dense().shard().squared_gradients() + model_->arena().shard().squared_gradients();
    auto totals =
        fssdp::all_reduce(comm_, std::vector{squares, loss, metrics.exposed_seconds,
                                             metrics.gather_seconds + metrics.reduce_seconds});

    auto const clip = std::min(1.0, max_gradient_norm / std::sqrt(totals[0]));
    if (mirror_ != nullptr) mirror_->finish();
    if (sends_momentum) {
      average(*groups_, *model_, rate, clip);
      model_->dense().descend(adamw);
      model_->arena().descend(adamw);
    } else {
      model_->dense().step(adamw, step + 1, clip);
      at(step, run_phase::optimizer);
      model_->arena().step(adamw, step + 1, clip);
    }
    auto between_bytes = std::uint64_t{0};
    if (groups_.has_value()) {
      groups_->end_step(weights(), step + 1, rate);
      totals = groups_->mean(totals);
      between_bytes = all_bytes_since(*groups_, comm_, sent_before);
    }
    mirror_after(step + 1);

    auto const seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    auto const tokens = static_cast<double>(scale_.global_tokens);
    record_.steps.push_back(
        {.step = step + 1,
         .loss = totals[1] / tokens,
         .tokens_per_second = tokens * (groups_.has_value() ? groups_->groups() : 1) / seconds,
         .load_max_over_mean_ep = load_at_owners(*model_),
         .load_max_over_mean = metrics.load_max_over_mean,
         .gathered_bytes = metrics.gathered_bytes,
         .reduced_bytes = metrics.reduced_bytes,
         .between_bytes = between_bytes,
         .moved_bytes = moved,
         .exposed_seconds = totals[2] / comm_.size(),
         .communication_seconds = totals[3] / comm_.size(),
         .experts = metrics,
         .recoveries = new_recoveries()});
    record_.peak_replica_bytes =
        std::max(record_.peak_replica_bytes,
                 metrics.replica_slots_peak * parameters_of_expert(shape_) * sizeof(Real));
    if (record_.is_of_first_rank) job_.observe(record_.steps.back());
    if (is_save_due(chosen_, step + 1)) save(comm_, *model_, groups(), chosen_, text_, step + 1);
  }
  /// If that is due, and pays.
  /// @return the bytes that have got another owner
  [[nodiscard]] std::uint64_t change_owners(int step) {
    if (!sharding_.is_due(step)) return 0;
    at(step, run_phase::reshard);
    if (mirror_ != nullptr) mirror_->finish();
    auto const moved = reshard(*model_, sharding_, groups());
    if (mirror_ != nullptr && moved > 0) mirror_->owners_changed(*model_);
    return moved;
  }
  void mirror_after(int steps) {
    if (mirror_ == nullptr || steps % chosen_.mirror_every != 0) return;
    at(steps - 1, run_phase::mirror);
    mirror_->write(*model_, steps);
  }
  /// Those that no step has told of.
  [[nodiscard]] std::vector<recovery_record> new_recoveries() {
    auto const first = record_.recoveries.begin() + static_cast<std::ptrdiff_t>(so_far_.told);
    so_far_.told = record_.recoveries.size();
    return {first, record_.recoveries.end()};
  }
  void finish() {
    if (groups_.has_value()) {
      auto const sent_before = groups_->bytes_sent();
      groups_->finish(weights());
      record_.steps.back().between_bytes += all_bytes_since(*groups_, comm_, sent_before);
    }
    if (files_ != nullptr)
      record_.offloaded_bytes = fssdp::all_reduce(comm_, std::array{files_->bytes()}).front();
    if (mirror_ != nullptr) {
      record_.mirrored_bytes =
          fssdp::all_reduce(comm_, std::array{mirror_->bytes_per_step()}).front();
      record_.mirror_seconds = mirror_->exposed_seconds();
    }
    model_->dense().gather(comm_);
    record_.parameters = model_->parameters();
    record_.heldout_loss = heldout_loss(comm_, *model_, text_,
                                        static_cast<std::size_t>(chosen_.held_out), sequences());
    record_.sample = write_text(comm_, *model_, text_, shape_.seq, chosen_.seed,
                                static_cast<std::size_t>(chosen_.sample));
    model_->experts().step();
  }

  Comm& comm_;
  rank_job const& job_;
  options const& chosen_;
  corpus const& text_;
  model_mirror<Real>* mirror_;
  run_so_far& so_far_;
  run_record& record_;
  model_shape shape_;
  fssdp::topology topo_;
  placement_rule solve_;
  sharding_rule sharding_;
  batch_scale scale_;
  resumed_run saved_;
  std::unique_ptr<fssdp::file_memory> files_;
  wire_coding coding_;
  std::optional<gpt<Real>> model_;
  std::optional<between_groups> groups_;
};

/// Trains on one rank.
/// @return what there is to report; on rank 0 with the text that the model has written
template <class Real, fssdp::communicator Comm, fssdp::communicator Streamed>
[[nodiscard]] run_record train_rank(Comm& comm, Streamed& streamed, rank_job const& job) {
  auto so_far = run_so_far{};
  rank_trainer<Real, Comm, Streamed>{comm, streamed, job, so_far}.run();
  return std::move(so_far.record);
}

}  // namespace moe_gpt
