// SPDX-License-Identifier: Apache-2.0
/// Loads experts from files of other programs, such as a published model, by the names of their
/// tensors. load_family.hpp knows the names of some models.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/safetensors_set.hpp"
#include "fssdp/checkpoint/tensor_pattern.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

/// Returns the name of a tensor in a file: a tensor_pattern, or a function of the caller.
template <class Naming>
concept tensor_naming = requires(Naming const& name, tensor_place const& place) {
  { name(place) } -> std::convertible_to<std::string>;
};
static_assert(tensor_naming<tensor_pattern>);

/// Reads a part from tensors with these names, converted if the types differ; on this rank only.
///
/// A tensor in the file has the shape that the part has, or is that of all experts of a layer,
/// [experts, shape...].
/// @cost reads what this rank owns
/// @throws file_error if a tensor is missing, has another shape, or is not of type F64, F32, F16 or
///         BF16: published fp8 has scales in other tensors, which are not read
template <tensor_naming Naming>
void read_tensors(safetensors_set const& from, loaded_part const& part, Naming const& naming) {
  auto const& about = part.about();
  auto const per_layer = static_cast<std::uint64_t>(about.experts() / about.layers);
  auto scratch = scratch_memory{};
  for (std::size_t g = 0; g < about.groups.size(); ++g) {
    auto target = detail::staged_target{part.staging(g)};
    for (std::size_t k = 0; k < about.tensors.size(); ++k)
      for (std::size_t slot = 0; slot < part.owned().size(); ++slot) {
        auto const& whole = about.tensors[k];
        auto const expert = part.owned()[slot].expert.index();
        auto const in_layer = expert % per_layer;
        auto const name = std::string{naming(tensor_place{
            layer_id{expert / per_layer}, expert_id{in_layer}, whole.name, about.groups[g].name})};
        auto const& found = from.at(name);
        auto const& stored = found.about();
        auto stacked = whole.shape;
        stacked.insert(stacked.begin(), per_layer);
        auto const is_stacked = stored.shape == stacked;
        detail::require_file(is_stacked || stored.shape == whole.shape, found.file->path(),
                             "tensor '", name, "' has the shape ", detail::shape_text(stored.shape),
                             "; expected ", detail::shape_text(whole.shape), " or ",
                             detail::shape_text(stacked));
        detail::require_file(needs_no_scale(stored.dtype), found.file->path(), "tensor '", name,
                             "' is of type ", name_of(stored.dtype),
                             "; expected F64, F32, F16 or BF16");
        auto const first = is_stacked ? in_layer * whole.elements() : 0;
        found.file->read(found.tensor, first + part.extent(k, slot).first, about.groups[g].dtype,
                         part.bytes(g, k, slot), scratch, target);
      }
    target.finish();
  }
}

/// The same on all ranks: it succeeds on all of them, or throws on all; the contents of the memory
/// are then unspecified.
/// @cost that of read_tensors, and an all_gather of 512 bytes from each rank
/// @throws as read_tensors on the rank that has failed; a file_error that names that rank on the
///         others; transport errors
template <communicator Comm, tensor_naming Naming>
void load_tensors(Comm& comm, std::filesystem::path const& from, loaded_part const& part,
                  Naming const& naming) {
  (void)detail::together(comm, "load_tensors", [&] {
    read_tensors(safetensors_set{from}, part, naming);
    return 0;
  });
}

}  // namespace fssdp
