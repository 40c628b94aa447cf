// SPDX-License-Identifier: Apache-2.0
/// Everything of the model but the experts, in one flat array.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attention.hpp"
#include "embedding.hpp"
#include "initialise.hpp"
#include "layer_norm.hpp"
#include "mix.hpp"
#include "model_shape.hpp"

namespace moe_gpt {

/// Whether AdamW shrinks a tensor: matrices yes; gains, biases and embeddings no.
enum class decay { off, on };

/// One tensor [rows, columns] of the flat array and what it starts from.
struct dense_tensor {
  std::string name;
  std::size_t rows = 0;
  std::size_t columns = 0;
  double mean = 0;
  double deviation = 0;
  decay shrinks = decay::off;
  std::size_t offset = 0;

  [[nodiscard]] std::size_t elements() const { return rows * columns; }
};

/// A part of the flat array that is treated alike by weight decay.
struct decay_range {
  std::size_t first = 0;
  std::size_t elements = 0;
  decay shrinks = decay::off;
};

/// One layer's tensors, or their gradients.
template <class Real>
struct dense_layer {
  layer_norm_tensors<Real> norm1;
  attention_tensors<Real> attention;
  layer_norm_tensors<Real> norm2;
  std::span<Real> router;  ///< [d_model, experts]
};

/// The flat array by its tensors: parameters, or gradients.
template <class Real>
struct dense_view {
  embedding_tensors<Real> embedding;
  std::vector<dense_layer<Real>> layers;
  layer_norm_tensors<Real> norm;
  std::span<Real> head;  ///< [d_model, 256]
};

/// Where every dense tensor lies in the flat array.
class dense_layout {
 public:
  explicit dense_layout(model_shape const& shape) : layers_{shape.layers} {
    auto const d = shape.d_model;
    auto const even = 1 / std::sqrt(static_cast<double>(d));
    // Each layer adds two branches to the residual stream: their sum should not grow with depth.
    auto const branch = even / std::sqrt(2 * static_cast<double>(shape.layers));
    auto const norm = [&](std::string const& name) {
      append({.name = name + ".gain", .rows = 1, .columns = d, .mean = 1});
      append({.name = name + ".bias", .rows = 1, .columns = d});
    };
    auto const weight = [&](std::string name, std::size_t columns, double deviation) {
      append({.name = std::move(name),
              .rows = d,
              .columns = columns,
              .deviation = deviation,
              .shrinks = decay::on});
    };
    append({.name = "token", .rows = byte_values, .columns = d, .deviation = 0.1});
    append({.name = "position", .rows = shape.seq, .columns = d, .deviation = 0.02});
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
      auto const prefix = "layer" + std::to_string(layer) + ".";
      norm(prefix + "norm1");
      weight(prefix + "wqkv", 3 * d, even);
      weight(prefix + "wo", d, branch);
      norm(prefix + "norm2");
      weight(prefix + "router", shape.experts, even);
    }
    norm("norm");
    weight("head", byte_values, 0.02);
  }

  [[nodiscard]] std::size_t elements() const { return elements_; }
  [[nodiscard]] std::span<dense_tensor const> tensors() const { return tensors_; }

  /// @pre flat.size() is elements(), or more where the array was padded
  template <class Real>
  [[nodiscard]] dense_view<Real> view(std::span<Real> flat) const {
    if (flat.size() < elements_)
      throw std::invalid_argument{"the dense parameters need " + std::to_string(elements_) +
                                  " elements, not " + std::to_string(flat.size())};
    auto at = tensors_.begin();
    auto const next = [&] {
      auto const& tensor = *at++;
      return flat.subspan(tensor.offset, tensor.elements());
    };
    auto const norm = [&] {
      auto const gain = next();
      return layer_norm_tensors<Real>{gain, next()};
    };
    auto all = dense_view<Real>{};
    all.embedding.token = next();
    all.embedding.position = next();
    all.layers.resize(layers_);
    for (auto& layer : all.layers) {
      layer.norm1 = norm();
      layer.attention.wqkv = next();
      layer.attention.wo = next();
      layer.norm2 = norm();
      layer.router = next();
    }
    all.norm = norm();
    all.head = next();
    return all;
  }

  /// The start of elements first, first + 1, ... of the flat array (zeros in the padding).
  template <class Real>
  void initialise(std::uint64_t seed, std::size_t first, std::span<Real> part) const {
    std::ranges::fill(part, Real{0});
    auto whole = std::vector<Real>{};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto const& tensor = tensors_[i];
      auto const from = std::max(first, tensor.offset);
      auto const to = std::min(first + part.size(), tensor.offset + tensor.elements());
      if (from >= to) continue;
      whole.resize(tensor.elements());
      fill_normal(std::span{whole}, tensor.mean, tensor.deviation, mix({seed, 0, i}));
      std::copy_n(whole.data() + (from - tensor.offset), to - from, part.data() + (from - first));
    }
  }

  /// Elements [first, first + count) cut where weight decay changes; `first` of a range counts
  /// from the start of the part. Padding is off.
  [[nodiscard]] std::vector<decay_range> decay_ranges(std::size_t first, std::size_t count) const {
    auto ranges = std::vector<decay_range>{};
    auto const push = [&](std::size_t from, std::size_t to, decay shrinks) {
      if (from >= to) return;
      if (!ranges.empty() && ranges.back().shrinks == shrinks)
        ranges.back().elements += to - from;
      else
        ranges.push_back({from - first, to - from, shrinks});
    };
    for (auto const& tensor : tensors_)
      push(std::max(first, tensor.offset),
           std::min(first + count, tensor.offset + tensor.elements()), tensor.shrinks);
    push(std::max(first, elements_), first + count, decay::off);
    return ranges;
  }

 private:
  void append(dense_tensor tensor) {
    tensor.offset = elements_;
    elements_ += tensor.elements();
    tensors_.push_back(std::move(tensor));
  }

  std::size_t layers_;
  std::size_t elements_ = 0;
  std::vector<dense_tensor> tensors_;
};

}  // namespace moe_gpt
