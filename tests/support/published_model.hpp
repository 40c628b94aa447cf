// SPDX-License-Identifier: Apache-2.0
/// Small models in files as those of each family are published, written element by element: the
/// library's own table and copies have no part in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/foreign_file.hpp"

namespace support {

/// Experts of the layers of a model, each with gate, up and down.
struct published_model {
  std::vector<int> layers = {0, 1};  ///< that have experts, by their numbers
  int experts = 3;
  int ffn = 4;
  int hidden = 5;

  /// The number of an element, exact in 16 bits. Tensors 0 to 5 are gate, up, down and their
  /// biases.
  [[nodiscard]] float number(int layer, int expert, int tensor, int output, int input) const {
    return static_cast<float>(
        (layer * 131 + expert * 71 + tensor * 37 + output * 11 + input * 3) % 241 - 120);
  }
  [[nodiscard]] std::vector<fssdp::whole_tensor> tensors(bool with_biases = false) const {
    auto const f = static_cast<std::uint64_t>(ffn);
    auto const h = static_cast<std::uint64_t>(hidden);
    auto all = std::vector<fssdp::whole_tensor>{{"gate", {f, h}}, {"up", {f, h}}, {"down", {h, f}}};
    if (!with_biases) return all;
    all.push_back({"gate_bias", {f}});
    all.push_back({"up_bias", {f}});
    all.push_back({"down_bias", {h}});
    return all;
  }
};

/// Writes lists of numbers of a type as tensors of a file.
template <class T>
class published_file {
 public:
  published_file(published_model const& model, std::string dtype)
      : model_{model}, dtype_{std::move(dtype)} {}

  /// Calls number(index...) for all indices below the sizes, the last one fastest.
  template <class Number>
  void add(std::string const& name, int rows, int columns, Number number) {
    auto values = std::vector<T>{};
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) values.push_back(static_cast<T>(number(r, c)));
    file_.add(name, dtype_, shape({rows, columns}), values);
  }
  template <class Number>
  void add_stacked(std::string const& name, int rows, int columns, Number number) {
    auto values = std::vector<T>{};
    for (int e = 0; e < model_.experts; ++e)
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) values.push_back(static_cast<T>(number(e, r, c)));
    file_.add(name, dtype_, shape({model_.experts, rows, columns}), values);
  }
  template <class Number>
  void add_biases(std::string const& name, int outputs, Number number) {
    auto values = std::vector<T>{};
    for (int e = 0; e < model_.experts; ++e)
      for (int o = 0; o < outputs; ++o) values.push_back(static_cast<T>(number(e, o)));
    file_.add(name, dtype_, shape({model_.experts, outputs}), values);
  }
  void write(std::filesystem::path const& path) const { file_.write(path); }

 private:
  [[nodiscard]] static std::string shape(std::vector<int> const& sizes) {
    auto text = std::string{};
    for (auto const size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
    return text + ']';
  }

  published_model const& model_;
  std::string dtype_;
  foreign_file file_;
};

/// The three matrices of each expert by themselves, gate, up and down called so.
template <class T>
void add_separate(published_file<T>& file, published_model const& m, int layer,
                  std::string const& prefix, std::vector<std::string> const& names) {
  for (int e = 0; e < m.experts; ++e)
    for (int k = 0; k < 3; ++k)
      file.add(prefix + std::to_string(e) + names[static_cast<std::size_t>(k)],
               k == 2 ? m.hidden : m.ffn, k == 2 ? m.ffn : m.hidden,
               [&](int o, int i) { return m.number(layer, e, k, o, i); });
}

/// Files of a model of the family of that name, one for each layer, with other tensors beside.
/// @param dtype what T is called in files
template <class T>
void publish(published_model const& m, std::string_view family, std::string const& dtype,
             std::filesystem::path const& folder) {
  for (auto const layer : m.layers) {
    auto file = published_file<T>{m, dtype};
    auto const at = "model.layers." + std::to_string(layer) + '.';
    file.add(at + "self_attn.q_proj.weight", 2, 2, [](int, int) { return 1.0F; });
    auto const number = [&](int e, int k, int o, int i) { return m.number(layer, e, k, o, i); };
    if (family == "mixtral")
      add_separate(file, m, layer, at + "block_sparse_moe.experts.",
                   {".w1.weight", ".w3.weight", ".w2.weight"});
    if (family == "qwen3_moe") {
      add_separate(file, m, layer, at + "mlp.experts.",
                   {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"});
      file.add(at + "mlp.shared_experts.gate_proj.weight", 2, 2, [](int, int) { return 1.0F; });
    }
    if (family == "stacked") {
      file.add_stacked(at + "mlp.experts.gate_up_proj", 2 * m.ffn, m.hidden,
                       [&](int e, int r, int c) {
                         return r < m.ffn ? number(e, 0, r, c) : number(e, 1, r - m.ffn, c);
                       });
      file.add_stacked(at + "mlp.experts.down_proj", m.hidden, m.ffn,
                       [&](int e, int r, int c) { return number(e, 2, r, c); });
    }
    if (family == "llama4") {
      auto const prefix = "language_model." + at + "feed_forward.experts.";
      file.add_stacked(prefix + "gate_up_proj", m.hidden, 2 * m.ffn, [&](int e, int r, int c) {
        return c < m.ffn ? number(e, 0, c, r) : number(e, 1, c - m.ffn, r);
      });
      file.add_stacked(prefix + "down_proj", m.ffn, m.hidden,
                       [&](int e, int r, int c) { return number(e, 2, c, r); });
    }
    if (family == "gpt_oss") {
      auto const prefix = at + "mlp.experts.";
      file.add_stacked(prefix + "gate_up_proj", m.hidden, 2 * m.ffn,
                       [&](int e, int r, int c) { return number(e, c % 2, c / 2, r); });
      file.add_biases(prefix + "gate_up_proj_bias", 2 * m.ffn,
                      [&](int e, int c) { return number(e, 3 + c % 2, c / 2, 0); });
      file.add_stacked(prefix + "down_proj", m.ffn, m.hidden,
                       [&](int e, int r, int c) { return number(e, 2, c, r); });
      file.add_biases(prefix + "down_proj_bias", m.hidden,
                      [&](int e, int c) { return number(e, 5, c, 0); });
    }
    file.write(folder / ("model-" + std::to_string(layer) + ".safetensors"));
  }
}

/// Calls visit(element, its number) for all that a rank owns of a model in a layer_stack.
template <class T, class Layers, class Visit>
void for_each_published(published_model const& m, std::vector<fssdp::whole_tensor> const& tensors,
                        Layers const& layers, fssdp::rank_id rank, fssdp::expert_buffer<T>& buffer,
                        Visit visit) {
  auto slot = std::size_t{0};
  for (auto const chunk : layers.owned(rank)) {
    auto const layer = m.layers[layers.layer_of(chunk).index()];
    auto const expert = layers.in_layer(chunk).expert.value();
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      auto const inputs = tensors[k].shape.size() == 2 ? tensors[k].shape[1] : 1;
      auto const extent = fssdp::slice_extent{tensors[k].elements(), chunk.slice, layers.slices()};
      for (std::size_t i = 0; i < extent.elements; ++i)
        visit(buffer.tensors()[k][slot][i],
              m.number(layer, expert, static_cast<int>(k),
                       static_cast<int>((extent.first + i) / inputs),
                       static_cast<int>((extent.first + i) % inputs)));
    }
    ++slot;
  }
}

}  // namespace support
