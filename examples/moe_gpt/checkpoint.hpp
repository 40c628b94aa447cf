// SPDX-License-Identifier: Apache-2.0
/// What a run needs to go on: parameters, moments, owners, step, what loads are expected from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "between_groups.hpp"
#include "expert_layouts.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "options.hpp"
#include "text.hpp"

namespace moe_gpt {

template <class Real>
class gpt;

/// What the predictors of the layers remember: [layers], or none.
using remembered_loads = std::vector<std::vector<std::uint64_t>>;

namespace detail {

/// Experts and the dense part of a rank, to be saved (saved_part) or loaded (loaded_part). The
/// dense part is one expert of a single tensor, in a slice for each rank.
template <class Part, class Model>
[[nodiscard]] std::vector<Part> parts_of(Model& model) {
  auto const& shape = model.shape();
  auto const [d, d_ff] = std::pair<std::uint64_t, std::uint64_t>{shape.d_model, shape.d_ff()};
  auto const add_all = [](Part& part, auto& shard) {
    part.add("weight", shard.weights())
        .add("moment1", shard.first_moments())
        .add("moment2", shard.second_moments());
  };
  auto parts = std::vector<Part>{};
  auto& experts = model.arena().shard();
  add_all(
      parts.emplace_back("experts", experts.layout(), experts.rank(),
                         std::vector<fssdp::whole_tensor>{
                             {"w1", {d, d_ff}}, {"b1", {d_ff}}, {"w2", {d_ff, d}}, {"b2", {d}}}),
      experts);
  auto& dense = model.dense().shard();
  auto const ranks = dense.layout().ranks();
  add_all(parts.emplace_back(
              "dense", fssdp::block_layout{{.experts = 1, .ranks = ranks, .slices = ranks}},
              dense.rank(),
              std::vector<fssdp::whole_tensor>{{"dense", {model.dense().layout().elements()}}},
              fssdp::tensor_pattern{"{tensor}.{group}"}),
          dense);
  return parts;
}

}  // namespace detail

/// What else a checkpoint keeps of a run, by the caller's means.
struct remembered {
  remembered_loads loads = {};
  std::vector<double> between = {};  ///< between_groups::position
};

/// Whether a checkpoint is written after so many steps.
[[nodiscard]] bool is_save_due(options const& chosen, int steps);

/// Writes a checkpoint; what --keep has no room for goes.
void save(fssdp::communicator_ref comm, std::span<fssdp::saved_part const> parts,
          remembered const& besides, options const& chosen, corpus const& text, int steps);

/// The same of a model, after the optimizer's step.
/// @param groups what it has to do with other groups; null: there are none
template <class Real, fssdp::communicator Comm, class Groups>
void save(Comm& comm, gpt<Real>& model, Groups* groups, options const& chosen, corpus const& text,
          int steps) {
  auto besides = remembered{};
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(model.experts().layers()))
    besides.loads.push_back(model.experts().predictor(layer).memory());
  auto parts = detail::parts_of<fssdp::saved_part>(model);
  if (groups != nullptr) {
    groups->drain(owned(model.arena().shard().weights(), model.dense().shard().weights()));
    groups->add_parts(parts);
    besides.between = groups->position();
  }
  save(fssdp::communicator_ref{comm}, parts, besides, chosen, text, steps);
}

/// What a run that cannot go on by itself says of its last checkpoint: how to go on from it, or
/// that there is none.
[[nodiscard]] std::string where_to_resume(options const& chosen);

/// The checkpoint that a run goes on from, or none. Of a run in groups there is one for each.
///
/// A run of other groups begins with the mean over the groups that were: what all groups have in
/// common stays as it is, and what they owed each other is conserved. A single group owes nothing:
/// there it is dropped, and several groups that begin from one owe nothing yet.
class resumed_run {
 public:
  /// That of --resume, if there is one.
  /// @throws fssdp::file_error; std::invalid_argument if it is of another model or text, or was
  ///         saved between two exchanges of parameters by other groups
  resumed_run(options const& chosen, corpus const& text);
  ~resumed_run();
  resumed_run(resumed_run const&) = delete;
  resumed_run& operator=(resumed_run const&) = delete;

  /// Who owns the experts: as it was, if ranks and slices are; else as the new run begins.
  [[nodiscard]] expert_layouts owners(expert_layouts const& at_first) const;

  /// Brings a model to where the checkpoint was, of which it closes the files.
  /// @return the steps that it has had; 0 without one
  template <class Real, fssdp::communicator Comm, class Groups>
  [[nodiscard]] int bring(Comm& comm, gpt<Real>& model, Groups* groups) {
    if (!exists()) return 0;
    auto parts = detail::parts_of<fssdp::loaded_part>(model);
    auto const begins = groups != nullptr && groups_ == 1;
    if (groups != nullptr && !begins) groups->add_parts(parts);
    auto const steps = load(fssdp::communicator_ref{comm}, parts);
    if (begins)
      groups->begin(owned(model.arena().shard().weights(), model.dense().shard().weights()));
    for (std::size_t layer = 0; layer < besides_.loads.size(); ++layer)
      model.experts().predictor(fssdp::layer_id{layer}).recall(besides_.loads[layer]);
    if (groups != nullptr && !begins) groups->resume(besides_.between);
    return steps;
  }
  /// Whether there is one, before it has been brought.
  [[nodiscard]] bool exists() const { return !saved_.empty(); }

 private:
  struct checkpoint;

  [[nodiscard]] int load(fssdp::communicator_ref comm, std::span<fssdp::loaded_part const> parts);

  std::vector<std::unique_ptr<checkpoint>> saved_;  // those that are to be read
  int groups_ = 1;                                  // of the run that was saved
  remembered besides_;
};

}  // namespace moe_gpt
