// SPDX-License-Identifier: Apache-2.0
/// What a folder holds as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "inspection.hpp"

namespace stored {

namespace detail {

using json = nlohmann::ordered_json;

[[nodiscard]] inline json to_json(std::vector<fssdp::whole_tensor> const& tensors) {
  auto all = json::array();
  for (auto const& tensor : tensors)
    all.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  return all;
}
[[nodiscard]] inline json to_json(part_report const& part) {
  auto const& about = part.about;
  auto groups = json::array();
  for (auto const& group : about.groups)
    groups.push_back({{"name", group.name}, {"type", std::string{name_of(group.dtype)}}});
  auto ranks = json::array();
  for (auto const& rank : part.ranks)
    ranks.push_back({{"chunks", rank.chunks}, {"bytes", rank.bytes}});
  return {{"name", about.name},          {"pattern", about.pattern.text},
          {"layers", about.layers},      {"experts", about.experts() / about.layers},
          {"slices", about.slices},      {"tensors", to_json(about.tensors)},
          {"groups", std::move(groups)}, {"ranks", std::move(ranks)},
          {"owners", about.owners}};
}
[[nodiscard]] inline json to_json(fssdp::published_experts const& experts) {
  auto types = json::array();
  for (auto const type : experts.dtypes) types.push_back(std::string{name_of(type)});
  return {{"family", experts.family.name},
          {"models", experts.family.models},
          {"patterns", experts.family.patterns()},
          {"layers", experts.layers},
          {"experts", experts.experts},
          {"tensors", to_json(experts.tensors)},
          {"types", std::move(types)},
          {"missing", experts.missing}};
}

}  // namespace detail

[[nodiscard]] inline nlohmann::ordered_json to_json(inspection const& of) {
  auto files = detail::json::array();
  for (auto const& file : of.files)
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"tensors", file.tensors},
                     {"has_checksums", file.has_checksums},
                     {"verified", file.verified}});
  auto types = detail::json::object();
  for (auto const& [name, total] : of.types)
    types[name] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  auto all = detail::json{{"kind", of.checkpoint.has_value() ? "checkpoint" : "model"},
                          {"folder", of.folder.string()},
                          {"bytes", of.bytes()},
                          {"tensors", of.tensors()}};
  if (of.checkpoint.has_value()) {
    auto const& checkpoint = *of.checkpoint;
    all["step"] = checkpoint.step;
    all["complete_steps"] = checkpoint.complete_steps;
    all["incomplete_steps"] = checkpoint.incomplete_steps;
    all["state_bytes"] = checkpoint.state_bytes;
    all["parts"] = detail::json::array();
    for (auto const& part : checkpoint.parts) all["parts"].push_back(detail::to_json(part));
  } else {
    all["has_index"] = of.model.has_index;
    all["experts"] =
        of.model.experts.has_value() ? detail::to_json(*of.model.experts) : detail::json(nullptr);
  }
  all["types"] = std::move(types);
  all["files"] = std::move(files);
  all["problems"] = of.problems;
  return all;
}

}  // namespace stored
