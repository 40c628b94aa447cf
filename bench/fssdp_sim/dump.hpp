// SPDX-License-Identifier: Apache-2.0
/// Placements and routings, one JSON object per line.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "simulate.hpp"

namespace sim {

/// A layer of an iteration: owners and holders per expert, and who sends how many tokens of which
/// expert to whom: [source, expert, destination, tokens].
[[nodiscard]] inline nlohmann::ordered_json to_json(policy const& which, scenario const& of,
                                                    layer_record const& at) {
  auto owners = nlohmann::ordered_json::array();
  auto holders = nlohmann::ordered_json::array();
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(at.answer.where.experts())) {
    owners.push_back(at.answer.owners.owner(expert).value());
    auto here = nlohmann::ordered_json::array();
    for (auto const rank : at.answer.where.holders(expert)) here.push_back(rank.value());
    holders.push_back(std::move(here));
  }
  auto routes = nlohmann::ordered_json::array();
  with_routing(at.answer, at.question, [&](auto const& routing) {
    for (auto const source : fssdp::first_n<fssdp::rank_id>(at.answer.where.ranks()))
      for (auto const expert : fssdp::first_n<fssdp::expert_id>(at.answer.where.experts()))
        routing(source, expert, (*at.question.counts)(source, expert),
                [&](fssdp::rank_id to, std::uint64_t tokens) {
                  routes.push_back({source.value(), expert.value(), to.value(), tokens});
                });
  });
  return {{"policy", which.name},
          {"model", of.where->model->name},
          {"cluster", of.where->kind->name},
          {"devices", of.where->topology.ranks()},
          {"iter", at.iter},
          {"layer", at.layer},
          {"max_over_mean", at.figures.max_over_mean},
          {"owners", std::move(owners)},
          {"holders", std::move(holders)},
          {"routing", std::move(routes)}};
}

/// A file that layers are written into, as they come.
class dump_file {
 public:
  /// @throws std::runtime_error that names the file if it cannot be written
  explicit dump_file(std::filesystem::path const& path) : path_{path}, file_{path} { check(); }

  void write(policy const& which, scenario const& of, layer_record const& at) {
    file_ << to_json(which, of, at).dump() << '\n';
    check();
  }
  void close() {
    file_.close();
    check();
  }

 private:
  void check() const {
    if (!file_) throw std::runtime_error{"--dump: cannot write " + path_.string()};
  }
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace sim
