// SPDX-License-Identifier: Apache-2.0
/// The names and storage orders of experts in published models.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/tensor_pattern.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// Which outputs of a tensor with two matrices belong to one of them.
enum class fusion {
  none,         ///< all: it has one matrix
  first_half,   ///< outputs 0, 1, ... of twice as many
  second_half,  ///< the outputs after those
  even,         ///< outputs 0, 2, 4, ...
  odd           ///< outputs 1, 3, 5, ...
};

/// How one tensor of an expert is stored in the files of a model.
struct family_tensor {
  /// The name in a part. In the families below, weights are [outputs, inputs], biases [outputs]:
  /// gate and up [ffn, hidden], down [hidden, ffn], gate_bias, up_bias [ffn], down_bias [hidden].
  std::string name;
  /// The name in files: a tensor_pattern of {layer} and {expert}. Without {expert}, one tensor has
  /// all experts of a layer: [experts, ...].
  std::string pattern;
  fusion fused = fusion::none;
  bool transposed = false;  ///< files have [inputs, outputs]

  [[nodiscard]] bool is_stacked() const { return pattern.find("{expert}") == pattern.npos; }
  friend bool operator==(family_tensor const&, family_tensor const&) = default;
};

/// Models whose experts have the same names and shapes.
struct model_family {
  std::string name;
  std::vector<std::string> models;  ///< the `model_type` in their config.json
  std::vector<family_tensor> tensors;

  /// The tensor with this name in a part.
  /// @throws argument_error if there is none
  [[nodiscard]] family_tensor const& tensor(std::string_view called) const {
    auto const found = std::ranges::find(tensors, called, &family_tensor::name);
    if (found != tensors.end()) return *found;
    auto names = std::string{};
    for (auto const& one : tensors) names += (names.empty() ? "" : ", ") + one.name;
    throw argument_error{
        detail::text("family ", name, ": no tensor '", called, "'; expected one of ", names)};
  }
  /// The patterns of all tensors, in order, each once.
  [[nodiscard]] std::vector<std::string> patterns() const {
    auto all = std::vector<std::string>{};
    for (auto const& one : tensors)
      if (std::ranges::find(all, one.pattern) == all.end()) all.push_back(one.pattern);
    return all;
  }
  friend bool operator==(model_family const&, model_family const&) = default;
};

namespace detail {

[[nodiscard]] inline std::vector<model_family> make_model_families() {
  auto const separate = [](std::string const& prefix, char const* gate, char const* up,
                           char const* down) {
    return std::vector<family_tensor>{
        {"gate", prefix + gate}, {"up", prefix + up}, {"down", prefix + down}};
  };
  auto const fused = [](std::string const& prefix, fusion gate, fusion up, bool transposed) {
    return std::vector<family_tensor>{{"gate", prefix + "gate_up_proj", gate, transposed},
                                      {"up", prefix + "gate_up_proj", up, transposed},
                                      {"down", prefix + "down_proj", fusion::none, transposed}};
  };
  auto const mlp = std::string{"model.layers.{layer}.mlp.experts."};
  auto gpt_oss = fused(mlp, fusion::even, fusion::odd, true);
  gpt_oss.push_back({"gate_bias", mlp + "gate_up_proj_bias", fusion::even});
  gpt_oss.push_back({"up_bias", mlp + "gate_up_proj_bias", fusion::odd});
  gpt_oss.push_back({"down_bias", mlp + "down_proj_bias"});
  return {{"mixtral",
           {"mixtral", "minimax"},
           separate("model.layers.{layer}.block_sparse_moe.experts.{expert}.", "w1.weight",
                    "w3.weight", "w2.weight")},
          {"qwen3_moe",
           {"qwen3_moe", "qwen2_moe", "olmoe", "deepseek_v3", "deepseek_v2", "glm4_moe"},
           separate(mlp + "{expert}.", "gate_proj.weight", "up_proj.weight", "down_proj.weight")},
          {"gpt_oss", {"gpt_oss"}, std::move(gpt_oss)},
          {"llama4",
           {"llama4"},
           fused("language_model.model.layers.{layer}.feed_forward.experts.", fusion::first_half,
                 fusion::second_half, true)},
          {"stacked", {}, fused(mlp, fusion::first_half, fusion::second_half, false)}};
}

}  // namespace detail

/// All known families. If files have names of two families, they are of the one with more names.
///
/// - mixtral: w1 (gate), w3 (up) and w2 (down) of each expert
/// - qwen3_moe: gate_proj, up_proj and down_proj of each expert; also OLMoE and DeepSeek-V3, whose
///   first layers have no experts
/// - gpt_oss: all experts of a layer in one tensor, transposed, gate and up interleaved; with
///   biases
/// - llama4: the same, gate before up; without biases
/// - stacked: all experts of a layer in one tensor, gate above up, as transformers 5 stores the
///   first two families in memory
///
/// Source: the modeling files of Hugging Face transformers, and its conversion_mapping.py.
[[nodiscard]] inline std::span<model_family const> model_families() {
  static auto const all = detail::make_model_families();
  return all;
}

/// The family with this name, or with models of this `model_type`: "olmoe" belongs to qwen3_moe.
/// @throws argument_error that lists the names
[[nodiscard]] inline model_family const& family_named(std::string_view name) {
  auto names = std::string{};
  for (auto const& family : model_families()) {
    if (family.name == name || std::ranges::find(family.models, name) != family.models.end())
      return family;
    names += (names.empty() ? "" : ", ") + family.name;
    for (auto const& model : family.models)
      if (model != family.name) names += ", " + model;
  }
  throw argument_error{
      detail::text("family_named: no family '", name, "'; expected one of ", names)};
}

}  // namespace fssdp
