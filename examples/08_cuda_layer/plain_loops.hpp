// SPDX-License-Identifier: Apache-2.0
/// The layer of 08_cuda_layer again, as plain loops.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "08_cuda_layer/problem.hpp"
#include "fssdp/layout/block_layout.hpp"

namespace cuda_layer {

/// Tokens of one rank through all experts; what an expert gets is added to its gradients.
[[nodiscard]] inline outcome<double> layer_in_loops(
    batch const& mine, std::vector<std::array<std::vector<double>, 2>>& d_w) {
  auto result =
      outcome<double>{std::vector<double>(mine.x.size()), std::vector<double>(mine.x.size()),
                      std::vector<double>(mine.gate.size())};
  auto inside = std::vector<double>(mine.gate.size() * hidden);  // [choices, hidden]
  auto computed = std::vector<double>(mine.gate.size() * width);
  auto const for_each_choice = [&](auto visit) {
    for (int e = 0; e < experts; ++e) {
      auto const w1 = parameters(fssdp::expert_id{e}, 0);
      auto const w2 = parameters(fssdp::expert_id{e}, 1);
      for (std::size_t c = 0; c < mine.choices.size(); ++c)
        if (mine.choices[c].value() == e)
          visit(c, c / per_token, w1, w2, d_w[mine.choices[c].index()]);
    }
  };
  for_each_choice([&](std::size_t c, std::size_t t, auto& w1, auto& w2, auto&) {
    auto* const h = &inside[c * hidden];
    auto* const out = &computed[c * width];
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < hidden; ++j) h[j] += mine.x[t * width + i] * w1[i * hidden + j];
    for (std::size_t j = 0; j < hidden; ++j) h[j] = std::max(h[j], 0.0);
    for (std::size_t j = 0; j < hidden; ++j)
      for (std::size_t i = 0; i < width; ++i) out[i] += h[j] * w2[j * width + i];
    for (std::size_t i = 0; i < width; ++i) result.y[t * width + i] += mine.gate[c] * out[i];
  });
  for_each_choice([&](std::size_t c, std::size_t t, auto& w1, auto& w2, auto& d) {
    auto const* const d_y = &result.y[t * width];
    auto const* const h = &inside[c * hidden];
    for (std::size_t i = 0; i < width; ++i) result.d_gate[c] += d_y[i] * computed[c * width + i];
    for (std::size_t j = 0; j < hidden; ++j) {
      auto d_h = 0.0;
      for (std::size_t i = 0; i < width; ++i) {
        d[1][j * width + i] += h[j] * mine.gate[c] * d_y[i];
        d_h += mine.gate[c] * d_y[i] * w2[j * width + i];
      }
      if (h[j] == 0) continue;
      for (std::size_t i = 0; i < width; ++i) {
        d[0][i * hidden + j] += mine.x[t * width + i] * d_h;
        result.d_x[t * width + i] += d_h * w1[i * hidden + j];
      }
    }
  });
  return result;
}
[[nodiscard]] inline std::vector<outcome<double>> reference(std::vector<batch> const& of_ranks) {
  auto d_w = std::vector<std::array<std::vector<double>, 2>>(
      experts, {std::vector<double>(sizes[0]), std::vector<double>(sizes[1])});
  auto all = std::vector<outcome<double>>{};
  for (auto const& mine : of_ranks) all.push_back(layer_in_loops(mine, d_w));
  auto const layout = fssdp::block_layout{{.experts = experts, .ranks = ranks}};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks))
    for (auto const chunk : layout.owned(rank))
      all[rank.index()].d_experts.push_back(d_w[chunk.expert.index()]);
  return all;
}

}  // namespace cuda_layer
