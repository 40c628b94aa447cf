// SPDX-License-Identifier: Apache-2.0
// What is the same for all models: the only file in which the checkpoints of the library are
// compiled, and JSON is read.
#include "checkpoint.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"

namespace moe_gpt {

namespace {

/// What two halves of a run have to agree in, by the options' names.
[[nodiscard]] nlohmann::json must_agree(options const& chosen, corpus const& text) {
  auto const sum = fssdp::checksum(std::as_bytes(text.bytes()));
  auto all = nlohmann::json{{"--experts", chosen.experts}, {"--layers", chosen.layers},
                            {"--d-model", chosen.d_model}, {"--heads", chosen.heads},
                            {"--seq", chosen.seq},         {"--seed", chosen.seed},
                            {"--text (checksum)", sum}};
  if (chosen.groups > 1) {
    all["--groups"] = chosen.groups;
    all["--between"] = chosen.between;
    all["--sync-every"] = chosen.sync_every;
    all["--sync-alpha"] = chosen.sync_alpha;
    all["--outer"] = name_of(chosen.outer);
  }
  return all;
}

}  // namespace

bool is_save_due(options const& chosen, int steps) {
  return !chosen.save.empty() &&
         (steps == chosen.steps || (chosen.save_every > 0 && steps % chosen.save_every == 0));
}

void save(fssdp::communicator_ref comm, std::span<fssdp::saved_part const> parts,
          remembered const& besides, options const& chosen, corpus const& text, int steps) {
  auto state = nlohmann::json{{"must_agree", must_agree(chosen, text)},
                              {"--predict", name_of(chosen.predict)},
                              {"loads", besides.loads}};
  if (chosen.groups > 1) state["between"] = besides.between;
  (void)fssdp::save_checkpoint(comm, parts,
                               {.folder = chosen.save,
                                .step = static_cast<std::uint64_t>(steps),
                                .state = state.dump(),
                                .keep = chosen.keep});
}

struct resumed_run::checkpoint {
  fssdp::checkpoint_reader from;
};

resumed_run::resumed_run(options const& chosen, corpus const& text) {
  if (chosen.resume.empty()) return;
  saved_ = std::make_unique<checkpoint>(checkpoint{fssdp::checkpoint_reader{chosen.resume}});
  auto const& index = saved_->from.index();
  auto const refuse = [&](std::string const& what) {
    throw std::invalid_argument{"--resume " + saved_->from.folder().string() + ": " + what};
  };
  if (index.step >= static_cast<std::uint64_t>(chosen.steps))
    refuse("it has had " + std::to_string(index.step) + " steps; expected --steps of more");
  try {
    auto const state = nlohmann::json::parse(std::string_view{index.state});
    auto const agreed = must_agree(chosen, text);
    for (auto const& [name, value] : agreed.items())
      if (state.at("must_agree").at(name) != value)
        refuse("it was saved with " + name + " " + state.at("must_agree").at(name).dump() +
               "; expected " + value.dump());
    if (state.at("--predict") == name_of(chosen.predict))
      besides_.loads = state.at("loads").get<remembered_loads>();
    if (chosen.groups > 1) state.at("between").get_to(besides_.between);
  } catch (nlohmann::json::exception const& error) {
    refuse(std::string{"it is not of moe_gpt: "} + error.what());
  }
  if (!besides_.loads.empty() && besides_.loads.size() != static_cast<std::size_t>(chosen.layers))
    refuse("it has loads of " + std::to_string(besides_.loads.size()) + " layers");
}

resumed_run::~resumed_run() = default;

expert_layouts resumed_run::owners(expert_layouts const& at_first) const {
  if (saved_ == nullptr) return at_first;
  auto const saved = saved_->from.index().layout("experts");
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

int resumed_run::load(fssdp::communicator_ref comm, std::span<fssdp::loaded_part const> parts) {
  fssdp::load_checkpoint(comm, saved_->from, parts);
  auto const steps = static_cast<int>(saved_->from.index().step);
  saved_.reset();
  return steps;
}

}  // namespace moe_gpt
