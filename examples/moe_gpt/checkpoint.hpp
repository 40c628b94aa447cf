// SPDX-License-Identifier: Apache-2.0
/// What a run needs to go on: parameters, moments, owners, step, what loads are expected from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "expert_arena.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "gpt.hpp"
#include "options.hpp"
#include "text.hpp"

namespace moe_gpt {

namespace detail {

/// What two halves of a run have to agree in, by the options' names.
[[nodiscard]] inline nlohmann::ordered_json must_agree(options const& chosen, corpus const& text) {
  auto const sum = fssdp::checksum(std::as_bytes(text.bytes()));
  return {{"--experts", chosen.experts}, {"--layers", chosen.layers}, {"--d-model", chosen.d_model},
          {"--heads", chosen.heads},     {"--seq", chosen.seq},       {"--seed", chosen.seed},
          {"--text (checksum)", sum}};
}

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

/// Whether a checkpoint is written after so many steps.
[[nodiscard]] inline bool is_save_due(options const& chosen, int steps) {
  return !chosen.save.empty() &&
         (steps == chosen.steps || (chosen.save_every > 0 && steps % chosen.save_every == 0));
}

/// Writes a checkpoint, behind the optimizer's step; what --keep has no room for goes.
template <class Real, fssdp::communicator Comm>
void save(Comm& comm, gpt<Real>& model, options const& chosen, corpus const& text, int steps) {
  auto expected = nlohmann::ordered_json::array();
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(model.experts().layers()))
    expected.push_back(model.experts().predictor(layer).memory());
  auto const state = nlohmann::ordered_json{{"must_agree", detail::must_agree(chosen, text)},
                                            {"--predict", name_of(chosen.predict)},
                                            {"loads", std::move(expected)}};
  auto const parts = detail::parts_of<fssdp::saved_part>(model);
  (void)fssdp::save_checkpoint(comm, parts,
                               {.folder = chosen.save,
                                .step = static_cast<std::uint64_t>(steps),
                                .state = state.dump(),
                                .keep = chosen.keep});
}

/// A checkpoint that a run goes on from.
struct resumed_run {
  fssdp::checkpoint_reader from;
  int steps = 0;  ///< that it has had
  std::vector<std::vector<std::uint64_t>> loads =
      {};  ///< memories of predictors; [layers], or none
};

/// The checkpoint of --resume, if there is one.
/// @throws fssdp::file_error; std::invalid_argument if it is of another model or text
[[nodiscard]] inline std::optional<resumed_run> open_checkpoint(options const& chosen,
                                                                corpus const& text) {
  if (chosen.resume.empty()) return {};
  auto run = resumed_run{.from = fssdp::checkpoint_reader{chosen.resume}};
  auto const& index = run.from.index();
  auto const refuse = [&](std::string const& what) {
    throw std::invalid_argument{"--resume " + run.from.folder().string() + ": " + what};
  };
  if (index.step >= static_cast<std::uint64_t>(chosen.steps))
    refuse("it has had " + std::to_string(index.step) + " steps; expected --steps of more");
  run.steps = static_cast<int>(index.step);
  try {
    auto const state = nlohmann::json::parse(index.state);
    auto const agreed = nlohmann::json(detail::must_agree(chosen, text));
    for (auto const& [name, value] : agreed.items())
      if (state.at("must_agree").at(name) != value)
        refuse("it was saved with " + name + " " + state.at("must_agree").at(name).dump() +
               "; expected " + value.dump());
    if (state.at("--predict") == name_of(chosen.predict))
      run.loads = state.at("loads").get<std::vector<std::vector<std::uint64_t>>>();
  } catch (nlohmann::json::exception const& error) {
    refuse(std::string{"it is not of moe_gpt: "} + error.what());
  }
  if (!run.loads.empty() && run.loads.size() != static_cast<std::size_t>(chosen.layers))
    refuse("it has loads of " + std::to_string(run.loads.size()) + " layers");
  return run;
}

/// Who owns the experts: as it was, if ranks and slices are; else as the new run begins.
[[nodiscard]] inline expert_layouts owners_at(std::optional<resumed_run> const& run,
                                              expert_layouts const& at_first) {
  if (!run.has_value()) return at_first;
  auto const saved = run->from.index().layout("experts");
  if (saved.ranks() != at_first.ranks() || saved.slices() != at_first.slices() ||
      saved.experts() != at_first.experts())
    return at_first;
  auto layers = std::vector<fssdp::table_layout>{};
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(at_first.layers())) {
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const chunk : fssdp::all_chunks(at_first.layer(layer))) {
      auto const expert = layer.value() * at_first.experts_per_layer() + chunk.expert.value();
      owners.push_back(saved.owner({fssdp::expert_id{expert}, chunk.slice}));
    }
    layers.push_back({{.ranks = saved.ranks(), .slices = saved.slices()}, std::move(owners)});
  }
  return expert_layouts{std::move(layers)};
}

/// Brings a model to where the checkpoint was.
/// @return the steps that it has had; 0 without one
template <class Real, fssdp::communicator Comm>
[[nodiscard]] int resume(Comm& comm, std::optional<resumed_run>& run, gpt<Real>& model) {
  if (!run.has_value()) return 0;
  auto const parts = detail::parts_of<fssdp::loaded_part>(model);
  fssdp::load_checkpoint(comm, run->from, parts);
  for (std::size_t layer = 0; layer < run->loads.size(); ++layer)
    model.experts().predictor(fssdp::layer_id{layer}).recall(run->loads[layer]);
  auto const steps = run->steps;
  run.reset();  // its files are closed
  return steps;
}

}  // namespace moe_gpt
