// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint stores of a rank: its chunks, their names, and their memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/checkpoint/safetensors_header.hpp"
#include "fssdp/checkpoint/tensor_pattern.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/memory/device_staging.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// The name and the shape of a tensor of a whole expert.
struct whole_tensor {
  std::string name;
  std::vector<std::uint64_t> shape;

  /// @pre tensor_bytes of the shape does not overflow
  [[nodiscard]] std::size_t elements() const {
    auto product = std::uint64_t{1};
    for (auto const size : shape) product *= size;
    return static_cast<std::size_t>(product);
  }
  friend bool operator==(whole_tensor const&, whole_tensor const&) = default;
};

namespace detail {

/// "w1 [4, 3], w2 [3, 4]"
[[nodiscard]] inline std::string names_and_shapes(std::vector<whole_tensor> const& tensors) {
  auto listed = std::string{};
  for (auto const& tensor : tensors) {
    listed += (listed.empty() ? "" : ", ") + tensor.name + " [";
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      listed += (d == 0 ? "" : ", ") + std::to_string(tensor.shape[d]);
    listed += "]";
  }
  return listed;
}

}  // namespace detail

/// The description of a part, which is equal on all ranks: the chunks of a layout, and their names.
struct part_description {
  std::string name;
  tensor_pattern pattern;
  int layers = 1;  ///< of the experts; equally many experts in each
  int slices = 1;
  std::vector<whole_tensor> tensors;  ///< of each expert
  struct group {
    std::string name;
    file_dtype dtype = file_dtype::f32;
    friend bool operator==(group const&, group const&) = default;
  };
  std::vector<group> groups;
  std::vector<int> owners;  ///< [experts * slices], in canonical order

  [[nodiscard]] int experts() const { return static_cast<int>(owners.size()) / slices; }
  /// The name of a tensor of an expert; experts are numbered over all layers.
  [[nodiscard]] std::string tensor_name(expert_id expert, std::size_t tensor,
                                        std::string_view group_name) const {
    auto const per_layer = experts() / layers;
    return pattern({layer_id{expert.value() / per_layer}, expert_id{expert.value() % per_layer},
                    tensors[tensor].name, group_name});
  }
  friend bool operator==(part_description const&, part_description const&) = default;
};

/// A layout and the memory of this rank for it: parameters and optimizer state. A view: the memory
/// must outlive it.
///
///     auto experts = saved_part{"experts", layouts, rank, {{"w1", {128, 256}}, {"b1", {256}}}};
///     experts.add("weight", weights).add("moment1", first_moments);
template <class Byte>
requires std::is_same_v<std::remove_const_t<Byte>, std::byte>
class checkpoint_part {
 public:
  /// @param tensors of one whole expert; slices are cut as slice_extent says
  /// @param pattern the names in the files; by default `experts.{expert}.{tensor}.{group}`, after
  ///        `layers.{layer}.` if the layout is a layer_stack
  /// @throws argument_error if the layout does not have this rank, or a shape is too large
  template <shard_layout Layout>
  checkpoint_part(std::string name, Layout const& layout, rank_id rank,
                  std::vector<whole_tensor> tensors,
                  tensor_pattern pattern = default_pattern<Layout>())
      : about_{.name = std::move(name),
               .pattern = std::move(pattern),
               .slices = layout.slices(),
               .tensors = std::move(tensors),
               .groups = {},
               .owners = {}},
        rank_{rank},
        ranks_{layout.ranks()} {
    detail::require(rank.value() >= 0 && rank.value() < layout.ranks(), "part '", about_.name,
                    "': rank ", rank, "; expected 0 to ", layout.ranks() - 1);
    if constexpr (requires { layout.layers(); }) about_.layers = layout.layers();
    for (auto const& tensor : about_.tensors)
      detail::require(tensor_bytes(tensor.shape, file_dtype::f64).has_value(), "part '",
                      about_.name, "': tensor '", tensor.name,
                      "' has a shape of too many elements");
    for (chunk_id const chunk : layout.owned(rank)) owned_.push_back(chunk);
    for (auto const chunk : all_chunks(layout))
      about_.owners.push_back(layout.owner(chunk).value());
  }

  /// Adds memory of one element type: [owned, slice_elements] per tensor, in slot order.
  /// @pre it is host memory
  /// @throws argument_error if the shape does not fit, or the name exists already
  template <expert_memory Buffer>
  checkpoint_part& add(std::string name, Buffer&& buffer) {
    auto const all = tensors_of(buffer);
    detail::require(all.size() == about_.tensors.size(), "part '", about_.name, "': ", name,
                    " has ", all.size(), " tensors; expected ", about_.tensors.size());
    for (auto const& group : about_.groups)
      detail::require(group.name != name, "part '", about_.name, "' has ", name, " already");
    auto views = std::vector<expert_tensor<Byte>>{};
    for (std::size_t k = 0; k < all.size(); ++k) {
      auto const& tensor = all[k];
      auto const expected = slice_elements(about_.tensors[k].elements(), about_.slices);
      detail::require(tensor.elements == expected && tensor.slots >= owned_.size(), "part '",
                      about_.name, "': tensor ", k, " of ", name, " is [", tensor.slots, ", ",
                      tensor.elements, "]; expected [", owned_.size(), ", ", expected, "]");
      detail::require(tensor.offsets == nullptr, "part '", about_.name, "': tensor ", k, " of ",
                      name, " has slots that differ in size; expected equal ones");
      constexpr auto size = sizeof(tensor.data[0]);
      views.push_back({reinterpret_cast<Byte*>(tensor.data), owned_.size(), tensor.elements * size,
                       tensor.stride * size});
      if (tensor.places == nullptr) continue;
      auto places = std::make_shared<std::vector<Byte*>>();
      for (std::size_t slot = 0; slot < owned_.size(); ++slot)
        places->push_back(reinterpret_cast<Byte*>(tensor.places[slot]));
      views.back().places = places->data();
      places_.push_back(std::move(places));
    }
    about_.groups.push_back({std::move(name), file_dtype_of<element_of<Buffer>>});
    groups_.push_back(std::move(views));
    stagings_.push_back(nullptr);
    return *this;
  }
  /// Adds device memory, which is copied through the buffers of `by`, never as a whole. Several
  /// groups may use the same staging.
  /// @param by outlives the part; its buffers have 1 MiB or more
  template <expert_memory Buffer>
  checkpoint_part& add(std::string name, Buffer&& buffer, device_staging& by) {
    add(std::move(name), buffer);
    stagings_.back() = &by;
    return *this;
  }

  [[nodiscard]] part_description const& about() const { return about_; }
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// The chunks of this rank, in slot order.
  [[nodiscard]] std::vector<chunk_id> const& owned() const { return owned_; }
  /// The part of a tensor that a chunk is.
  [[nodiscard]] slice_extent extent(std::size_t tensor, std::size_t slot) const {
    return {about_.tensors[tensor].elements(), owned_[slot].slice, about_.slices};
  }
  /// The staging of a group; null for host memory.
  [[nodiscard]] device_staging* staging(std::size_t group) const { return stagings_[group]; }
  /// The bytes of a chunk, without padding.
  [[nodiscard]] std::span<Byte> bytes(std::size_t group, std::size_t tensor,
                                      std::size_t slot) const {
    auto const size = element_bytes(about_.groups[group].dtype);
    return groups_[group][tensor][slot].first(extent(tensor, slot).elements * size);
  }

 private:
  template <class Layout>
  [[nodiscard]] static tensor_pattern default_pattern() {
    if constexpr (requires(Layout const& layout) { layout.layers(); }) return {};
    return {"experts.{expert}.{tensor}.{group}"};
  }

  part_description about_;
  rank_id rank_;
  int ranks_;
  std::vector<chunk_id> owned_;
  std::vector<std::vector<expert_tensor<Byte>>> groups_;           // [groups] of [tensors]
  std::vector<device_staging*> stagings_;                          // [groups]
  std::vector<std::shared_ptr<std::vector<Byte*> const>> places_;  // for slots with places
};

/// A part to save; a part to load.
using saved_part = checkpoint_part<std::byte const>;
using loaded_part = checkpoint_part<std::byte>;

}  // namespace fssdp
