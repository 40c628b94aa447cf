// SPDX-License-Identifier: Apache-2.0
// What is the same for all models. No other file compiles the library's checkpoints, or reads JSON.
#include "checkpoint.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
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
    all["--between"] = chosen.between;
    all["--between-start"] = chosen.between_start;
    all["--sync-every"] = chosen.sync_every;
    all["--sync-alpha"] = chosen.sync_alpha;
    all["--outer"] = name_of(chosen.outer);
    all["--outer-rate"] = chosen.outer_rate;
    all["--outer-momentum"] = chosen.outer_momentum;
    all["--fragments"] = chosen.fragments;
    all["--adapt-every"] = chosen.adapt_every;
  }
  return all;
}

/// Calls visit(bytes) for what this rank owns of some parts, group by group of each.
template <class Visit>
void for_each_bytes(std::span<fssdp::loaded_part const> parts, Visit visit) {
  for (auto const& part : parts)
    for (std::size_t g = 0; g < part.about().groups.size(); ++g)
      for (std::size_t k = 0; k < part.about().tensors.size(); ++k)
        for (std::size_t slot = 0; slot < part.owned().size(); ++slot)
          visit(part.bytes(g, k, slot));
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
  if (chosen.groups > 1) {
    state["--groups"] = chosen.groups;
    state["between"] = besides.between;
  }
  (void)fssdp::save_checkpoint(comm, parts,
                               {.folder = chosen.save,
                                .step = static_cast<std::uint64_t>(steps),
                                .state = state.dump(),
                                .keep = chosen.keep});
}

std::string where_to_resume(options const& chosen) {
  auto const steps = chosen.save.empty() || !std::filesystem::is_directory(chosen.save)
                         ? std::vector<std::uint64_t>{}
                         : fssdp::complete_steps(chosen.save);
  if (!steps.empty())
    return "the last checkpoint is that of step " + std::to_string(steps.back()) + ": --resume " +
           chosen.save.string();
  if (!chosen.resume.empty())
    return "there is no checkpoint but the one that this run has begun from: --resume " +
           chosen.resume.string();
  return "there is no checkpoint: --save and --save-every write them";
}

struct resumed_run::checkpoint {
  fssdp::checkpoint_reader from;
};

resumed_run::resumed_run(options const& chosen, corpus const& text) {
  if (chosen.resume.empty()) return;
  auto const refuse = [&](std::string const& what) {
    throw std::invalid_argument{"--resume " + chosen.resume.string() + ": " + what};
  };
  auto const open = [&](std::filesystem::path const& folder) -> checkpoint const& {
    return *saved_.emplace_back(
        std::make_unique<checkpoint>(checkpoint{fssdp::checkpoint_reader{folder}}));
  };
  auto const is_in_groups = std::filesystem::exists(chosen.resume / folder_of_group(0));
  try {
    auto const state_of = [](checkpoint const& of) {
      return nlohmann::json::parse(std::string_view{of.from.index().state});
    };
    if (is_in_groups) {
      groups_ = state_of(open(chosen.resume / folder_of_group(0))).at("--groups").get<int>();
      if (groups_ == chosen.groups) saved_.clear();  // only this group's own
      for (int group = saved_.empty() ? chosen.group : 1;
           group < (groups_ == chosen.groups ? chosen.group + 1 : groups_); ++group)
        open(chosen.resume / folder_of_group(group));
    } else {
      open(chosen.resume);
    }
    for (auto const& one : saved_) {
      auto const& index = one->from.index();
      if (index.step >= static_cast<std::uint64_t>(chosen.steps))
        refuse("it has had " + std::to_string(index.step) + " steps; expected --steps of more");
      if (index.step != saved_.front()->from.index().step)
        refuse("its groups have had " + std::to_string(saved_.front()->from.index().step) +
               " and " + std::to_string(index.step) + " steps; expected as many");
      auto const state = state_of(*one);
      auto const& saved = state.at("must_agree");
      auto const agreed = must_agree(chosen, text);
      for (auto const& [name, value] : agreed.items())
        if ((groups_ > 1 || saved.contains(name)) && saved.at(name) != value)
          refuse("it was saved with " + name + " " + saved.at(name).dump() + "; expected " +
                 value.dump());
    }
    auto const group = static_cast<std::size_t>(chosen.group) % saved_.size();
    auto const state = state_of(*saved_[group]);
    if (state.at("--predict") == name_of(chosen.predict))
      besides_.loads = state.at("loads").get<remembered_loads>();
    if (groups_ > 1) state.at("between").get_to(besides_.between);
    auto const is_within_a_round = chosen.sync_every > 0 && groups_ != chosen.groups &&
                                   groups_ > 1 && besides_.between.back() != 0;
    if (is_within_a_round)
      refuse("it was saved within a round of " + std::to_string(groups_) + " groups, " +
             std::to_string(static_cast<int>(besides_.between.back())) +
             " steps before its end; expected the end for other groups");
  } catch (nlohmann::json::exception const& error) {
    refuse(std::string{"it is not of moe_gpt: "} + error.what());
  }
  if (!besides_.loads.empty() && besides_.loads.size() != static_cast<std::size_t>(chosen.layers))
    refuse("it has loads of " + std::to_string(besides_.loads.size()) + " layers");
}

resumed_run::~resumed_run() = default;

expert_layouts resumed_run::owners(expert_layouts const& at_first) const {
  if (!exists()) return at_first;
  auto const saved = saved_.front()->from.index().layout("experts");
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

namespace {

/// All floats of some parts that this rank owns.
[[nodiscard]] std::vector<float> floats_of(std::span<fssdp::loaded_part const> parts) {
  auto all = std::vector<float>{};
  for_each_bytes(parts, [&](std::span<std::byte> bytes) {
    auto const first = all.size();
    all.resize(first + bytes.size() / sizeof(float));
    std::memcpy(all.data() + first, bytes.data(), bytes.size());
  });
  return all;
}

}  // namespace

int resumed_run::load(fssdp::communicator_ref comm, std::span<fssdp::loaded_part const> parts) {
  fssdp::load_checkpoint(comm, saved_.front()->from, parts);
  auto const steps = static_cast<int>(saved_.front()->from.index().step);
  if (saved_.size() > 1) {  // first + mean of (other - first): what is equal stays as it is
    auto const first = floats_of(parts);
    auto apart = std::vector<float>(first.size());
    for (auto const& other : std::span{saved_}.subspan(1)) {
      fssdp::load_checkpoint(comm, other->from, parts);
      auto const values = floats_of(parts);
      for (std::size_t i = 0; i < apart.size(); ++i) apart[i] += values[i] - first[i];
    }
    auto at = std::size_t{0};
    for_each_bytes(parts, [&](std::span<std::byte> bytes) {
      for (std::size_t i = 0; i < bytes.size(); i += sizeof(float), ++at) {
        auto const mean = first[at] + apart[at] / static_cast<float>(saved_.size());
        std::memcpy(bytes.data() + i, &mean, sizeof mean);
      }
    });
  }
  saved_.clear();
  return steps;
}

}  // namespace moe_gpt
