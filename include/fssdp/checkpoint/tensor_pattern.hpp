// SPDX-License-Identifier: Apache-2.0
/// Names of tensors in files.
#pragma once

#include <string>
#include <string_view>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// Identifies a tensor of a model.
struct tensor_place {
  layer_id layer;
  expert_id expert;  ///< within its layer
  std::string_view tensor;
  std::string_view group = "weight";
};

/// A pattern of names with the gaps {layer}, {expert}, {tensor} and {group}:
///
///     model.layers.{layer}.block_sparse_moe.experts.{expert}.{tensor}.weight
struct tensor_pattern {
  std::string text = "layers.{layer}.experts.{expert}.{tensor}.{group}";

  /// The name for a tensor.
  /// @throws argument_error if the pattern has another gap
  [[nodiscard]] std::string operator()(tensor_place const& place) const {
    auto name = std::string{};
    auto rest = std::string_view{text};
    for (auto open = rest.find('{'); open != rest.npos; open = rest.find('{')) {
      auto const close = rest.find('}', open);
      auto const gap = rest.substr(open, close == rest.npos ? close : close - open + 1);
      name += rest.substr(0, open);
      if (gap == "{layer}")
        name += std::to_string(place.layer.value());
      else if (gap == "{expert}")
        name += std::to_string(place.expert.value());
      else if (gap == "{tensor}")
        name += place.tensor;
      else if (gap == "{group}")
        name += place.group;
      else
        throw argument_error{detail::text("tensor_pattern: '", text, "' has the gap '", gap,
                                          "'; expected {layer}, {expert}, {tensor} or {group}")};
      rest.remove_prefix(open + gap.size());
    }
    return name += rest;
  }
  friend bool operator==(tensor_pattern const&, tensor_pattern const&) = default;
};

namespace detail {

/// The name of a slice: that of the whole tensor with the range of its elements, `w1.weight[8:16]`.
[[nodiscard]] inline std::string slice_name(std::string whole, slice_extent const& part,
                                            int slices) {
  if (slices == 1) return whole;
  return whole +=
         '[' + std::to_string(part.first) + ':' + std::to_string(part.first + part.elements) + ']';
}

}  // namespace detail
}  // namespace fssdp
