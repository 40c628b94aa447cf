// SPDX-License-Identifier: Apache-2.0
/// The layouts of all layers of a model as one layout: their shards share one arena.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// A layout over the experts of all layers: expert e of layer l is expert l * experts_per_layer() +
/// e. In the arena of a rank, the shards of layer 0, 1, ... follow one another. So a rank may own
/// many experts of one layer and none of another, in the same memory. (Paper, heterogeneous
/// sharding)
template <shard_layout Layout = table_layout>
class layer_stack {
 public:
  layer_stack() : layer_stack{{Layout{}}} {}
  /// @throws argument_error unless there is at least one layer, all have the same numbers of
  ///         experts, slices and ranks, and all chunks together fit into an int
  explicit layer_stack(std::vector<Layout> layers) : layers_{std::move(layers)} {
    detail::require(!layers_.empty(), "layer_stack: 0 layers; expected 1 or more");
    auto const& top = layers_.front();
    for (auto const& layer : layers_)
      detail::require(layer.experts() == top.experts() && layer.slices() == top.slices() &&
                          layer.ranks() == top.ranks(),
                      "layer_stack: a layer of ", layer.experts(), " experts in ", layer.slices(),
                      " slices on ", layer.ranks(), " ranks; expected ", top.experts(), ", ",
                      top.slices(), " and ", top.ranks(), " as in the first layer");
    detail::check_shape("layer_stack", top.experts(), top.ranks(), top.slices());
    auto const most = std::numeric_limits<int>::max();
    detail::require(layers_.size() <= static_cast<std::size_t>(most / top.experts() / top.slices()),
                    "layer_stack: ", layers_.size(), " layers of ", top.experts(), " experts in ",
                    top.slices(), " slices; expected at most ", most, " chunks");
    auto const ranks = static_cast<std::size_t>(top.ranks());
    first_slot_.assign((layers_.size() + 1) * ranks, 0);
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (auto const rank : first_n<rank_id>(top.ranks()))
        first_slot_[(l + 1) * ranks + rank.index()] =
            first_slot_[l * ranks + rank.index()] + static_cast<int>(layers_[l].owned(rank).size());
  }

  [[nodiscard]] int layers() const { return static_cast<int>(layers_.size()); }
  [[nodiscard]] Layout const& layer(layer_id which) const { return layers_[which.index()]; }
  /// The layout of each layer: [layers].
  [[nodiscard]] std::span<Layout const> by_layer() const { return layers_; }
  [[nodiscard]] int experts_per_layer() const { return layers_.front().experts(); }

  [[nodiscard]] int experts() const { return layers() * experts_per_layer(); }
  [[nodiscard]] int slices() const { return layers_.front().slices(); }
  [[nodiscard]] int ranks() const { return layers_.front().ranks(); }
  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    return layer(layer_of(chunk)).owner(in_layer(chunk));
  }
  [[nodiscard]] int slot(chunk_id chunk) const {
    return first_slot(layer_of(chunk), owner(chunk)) + layer(layer_of(chunk)).slot(in_layer(chunk));
  }
  /// The chunks of a rank in slot order: layer by layer.
  [[nodiscard]] std::vector<chunk_id> owned(rank_id rank) const {
    auto chunks = std::vector<chunk_id>{};
    for (int l = 0; l < layers(); ++l)
      for (chunk_id const chunk : layers_[static_cast<std::size_t>(l)].owned(rank))
        chunks.push_back({expert_id{l * experts_per_layer() + chunk.expert.value()}, chunk.slice});
    return chunks;
  }

  /// The layer of a chunk; the chunk within that layer.
  [[nodiscard]] layer_id layer_of(chunk_id chunk) const {
    return layer_id{chunk.expert.value() / experts_per_layer()};
  }
  [[nodiscard]] chunk_id in_layer(chunk_id chunk) const {
    return {expert_id{chunk.expert.value() % experts_per_layer()}, chunk.slice};
  }

  /// The slot at which the shard of a layer begins in the arena of a rank.
  [[nodiscard]] int first_slot(layer_id which, rank_id rank) const {
    return first_slot_[which.index() * static_cast<std::size_t>(ranks()) + rank.index()];
  }
  /// The number of slots of the arena of a rank.
  [[nodiscard]] std::size_t slots(rank_id rank) const {
    return static_cast<std::size_t>(first_slot(layer_id{layers()}, rank));
  }

  friend bool operator==(layer_stack const& a, layer_stack const& b) {
    return a.layers_ == b.layers_;
  }

 private:
  std::vector<Layout> layers_;
  std::vector<int> first_slot_;  // [layers + 1, ranks]
};

static_assert(shard_layout<layer_stack<>>);

/// The shard of one layer, [owned, slice_elements] per tensor: a view into a rank's arena, valid
/// until the next reshard. For tensors with a table of places it is a part of that table.
/// @param arena of any types (also any_tensor)
/// @pre the arena has at least the slots that the stack needs
/// @throws argument_error if it has fewer, layer or rank does not exist, or a dtype is invalid
template <shard_layout Layout, tensor_memory Arena>
[[nodiscard]] auto layer_shard(layer_stack<Layout> const& stack, layer_id layer, rank_id rank,
                               Arena& arena) {
  detail::require(layer.value() >= 0 && layer.value() < stack.layers(), "layer_shard: layer ",
                  layer, "; expected 0 to ", stack.layers() - 1);
  detail::require(rank.value() >= 0 && rank.value() < stack.ranks(), "layer_shard: rank ", rank,
                  "; expected 0 to ", stack.ranks() - 1);
  auto const tensors = tensors_of(arena);
  auto const first = static_cast<std::size_t>(stack.first_slot(layer, rank));
  auto const count = stack.layer(layer).owned(rank).size();
  auto views = std::vector<std::remove_cvref_t<decltype(tensors[0])>>{};
  for (auto const& tensor : tensors) {
    detail::require(tensor.slots >= stack.slots(rank), "layer_shard: an arena of ", tensor.slots,
                    " slots; expected ", stack.slots(rank), " or more on rank ", rank);
    views.push_back(detail::part_of(tensor, first, count));
  }
  return views;
}

}  // namespace fssdp
