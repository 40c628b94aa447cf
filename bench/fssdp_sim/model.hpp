// SPDX-License-Identifier: Apache-2.0
/// The models whose training is simulated, by their shapes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace sim {

/// What the time of an iteration depends on. Layers are MoE layers; a token attends to `context`
/// others on average: all of its sequence, or half of it where attention is causal.
struct model_shape {
  std::string_view name;
  int d_model;
  int d_ffn;     ///< of one expert
  int matrices;  ///< of one expert: 2, or 3 where it is gated
  int layers;
  int experts;
  int top_k;
  int context;
  double attention_parameters;    ///< of one layer
  double score_width;             ///< heads * (width of keys + width of values)
  double shared_parameters = 0;   ///< of one MoE layer: experts that every token goes to
  int dense_layers = 0;           ///< without experts
  double dense_parameters = 0;    ///< of one of them, attention aside
  int experts_at_16_devices = 0;  ///< where the paper takes fewer; 0: no difference
};

namespace detail {

/// A model of the paper: d_ffn = 2 d_model, plain experts, top-2, one head's width for all.
constexpr model_shape of_paper(std::string_view name, int d_model, int layers, int context) {
  auto const d = static_cast<double>(d_model);
  return {.name = name,
          .d_model = d_model,
          .d_ffn = 2 * d_model,
          .matrices = 2,
          .layers = layers,
          .experts = 64,
          .top_k = 2,
          .context = context,
          .attention_parameters = 4 * d * d,
          .score_width = 2 * d,
          .experts_at_16_devices = 32};
}

}  // namespace detail

inline constexpr auto models = std::array<model_shape, 8>{
    detail::of_paper("gpt-moe-s", 768, 12, 1024),
    detail::of_paper("gpt-moe-l", 1536, 12, 1024),
    detail::of_paper("bert-moe", 1024, 12, 512),
    detail::of_paper("bert-moe-deep", 1024, 24, 512),
    model_shape{.name = "mixtral-8x7b",
                .d_model = 4096,
                .d_ffn = 14336,
                .matrices = 3,
                .layers = 32,
                .experts = 8,
                .top_k = 2,
                .context = 2048,
                .attention_parameters = 2 * 4096.0 * (4096 + 1024),
                .score_width = 32 * (128.0 + 128)},
    model_shape{.name = "qwen3-30b-a3b",
                .d_model = 2048,
                .d_ffn = 768,
                .matrices = 3,
                .layers = 48,
                .experts = 128,
                .top_k = 8,
                .context = 2048,
                .attention_parameters = 2 * 2048.0 * (4096 + 512),
                .score_width = 32 * (128.0 + 128)},
    model_shape{.name = "qwen3-235b-a22b",
                .d_model = 4096,
                .d_ffn = 1536,
                .matrices = 3,
                .layers = 94,
                .experts = 128,
                .top_k = 8,
                .context = 2048,
                .attention_parameters = 2 * 4096.0 * (8192 + 512),
                .score_width = 64 * (128.0 + 128)},
    model_shape{.name = "deepseek-v3",
                .d_model = 7168,
                .d_ffn = 2048,
                .matrices = 3,
                .layers = 58,
                .experts = 256,
                .top_k = 8,
                .context = 2048,
                .attention_parameters = 7168.0 * 1536 + 1536.0 * 128 * 192 + 7168.0 * 576 +
                                        512.0 * 128 * 256 + 128.0 * 128 * 7168,
                .score_width = 128 * (192.0 + 128),
                .shared_parameters = 3 * 7168.0 * 2048,
                .dense_layers = 3,
                .dense_parameters = 3 * 7168.0 * 18432}};

/// The model of a name; null if there is none.
[[nodiscard]] constexpr model_shape const* model_named(std::string_view name) {
  auto const at = std::ranges::find(models, name, &model_shape::name);
  return at == models.end() ? nullptr : &*at;
}

[[nodiscard]] constexpr double expert_parameters(model_shape const& of) {
  return static_cast<double>(of.matrices) * of.d_model * of.d_ffn;
}
/// 16 bits each.
[[nodiscard]] constexpr std::size_t expert_bytes(model_shape const& of) {
  return static_cast<std::size_t>(2 * expert_parameters(of));
}
/// Of one token in one layer, forward.
[[nodiscard]] constexpr double attention_flops(model_shape const& of) {
  return 2 * of.attention_parameters + 2 * of.context * of.score_width;
}

}  // namespace sim
