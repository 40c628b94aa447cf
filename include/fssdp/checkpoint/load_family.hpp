// SPDX-License-Identifier: Apache-2.0
/// Loads the experts of a published model of a known family, in any storage order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/fused_matrix.hpp"
#include "fssdp/checkpoint/load_tensors.hpp"
#include "fssdp/checkpoint/model_family.hpp"
#include "fssdp/checkpoint/place_elements.hpp"
#include "fssdp/checkpoint/published_experts.hpp"
#include "fssdp/checkpoint/safetensors_set.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/require_file.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

namespace detail {

/// A list of numbers as text: 3, 4, 5 and 58 more.
[[nodiscard]] inline std::string numbers_text(std::span<int const> numbers) {
  constexpr auto most = std::size_t{8};
  auto list = std::string{};
  for (std::size_t i = 0; i < std::min(most, numbers.size()); ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  if (numbers.size() > most) list += " and " + std::to_string(numbers.size() - most) + " more";
  return list;
}

/// Reads tensors of experts from regions of files.
class family_reader {
 public:
  family_reader(safetensors_set const& from, model_family const& family, int experts)
      : from_{from}, family_{family}, experts_{static_cast<std::uint64_t>(experts)} {}

  /// Reads a part of a tensor of an expert.
  /// @param layer the number in the names of the files
  void read(whole_tensor const& whole, int layer, expert_id expert, slice_extent const& extent,
            file_dtype dtype, std::span<std::byte> to, staged_target& target) {
    auto const& in_file = family_.tensor(whole.name);
    auto const matrix = fused_matrix{whole, in_file};
    auto const name = tensor_pattern{in_file.pattern}({layer_id{layer}, expert, {}, {}});
    auto const& found = from_.at(name);
    auto const& stored = found.about();
    auto shape = matrix.shape();
    if (in_file.is_stacked()) shape.insert(shape.begin(), experts_);
    require_file(stored.shape == shape, found.file->path(), "tensor '", name, "' has the shape ",
                 shape_text(stored.shape), "; expected ", shape_text(shape), " for ", whole.name,
                 ' ', shape_text(whole.shape), ", family ", family_.name);
    require_file(needs_no_scale(stored.dtype), found.file->path(), "tensor '", name,
                 "' is of type ", name_of(stored.dtype), "; expected F64, F32, F16 or BF16");
    if (extent.elements == 0) return;
    auto const region = in_file.is_stacked() ? expert.index() * matrix.region_elements() : 0;
    if (matrix.is_contiguous()) {
      found.file->read(found.tensor, region + matrix.first() + extent.first, dtype, to, blocks_,
                       target);
      return;
    }
    auto const size = element_bytes(stored.dtype);
    auto const all = matrix.region_elements() * size;
    if (name != last_name_ || region != last_region_) {
      last_name_.clear();
      region_ = memory_.reserve(all);
      found.file->read(found.tensor, region, stored.dtype, region_, blocks_);
      last_name_ = name;
      last_region_ = region;
    }
    auto const own = own_.reserve(extent.elements * size);
    matrix.gather(region_, extent.first, size, own);
    place_elements(stored.dtype, own, dtype, to, target);
  }

 private:
  safetensors_set const& from_;
  model_family const& family_;
  std::uint64_t experts_;
  std::string last_name_;  // the tensor in region_
  std::uint64_t last_region_ = 0;
  std::span<std::byte> region_;  // in memory_
  scratch_memory blocks_;
  scratch_memory memory_;
  scratch_memory own_;
};

/// The numbers in the files of the layers of a part: the given ones, or all layers with experts.
[[nodiscard]] inline std::vector<int> layers_in_files(safetensors_set const& from,
                                                      part_description const& about,
                                                      model_family const& family,
                                                      std::span<int const> layers) {
  auto const count = static_cast<std::size_t>(about.layers);
  auto const experts = about.experts() / about.layers;
  for (auto const& tensor : about.tensors) (void)family.tensor(tensor.name);
  if (!layers.empty()) {
    require(layers.size() == count, "load_tensors: ", layers.size(),
            " numbers of layers; the part '", about.name, "' has ", count);
    return {layers.begin(), layers.end()};
  }
  auto const there = experts_in(from, family);
  require_file(there.layers.size() == count && there.experts == experts, from.path(), "has ",
               there.experts, " experts in each of ", there.layers.size(), " layers (",
               numbers_text(there.layers), "); the part '", about.name, "' has ", experts, " in ",
               count);
  return there.layers;
}

}  // namespace detail

/// Reads a part from the files of a model of a family, converted if the types differ; on this rank
/// only.
///
/// The tensors of the part have the names and shapes of the family; the part may have only some of
/// them. All groups of the part get the same values.
/// @param layers the number in the files of each layer of the part; empty: all layers with experts,
///        in ascending order, so dense layers are skipped
/// @cost reads what this rank owns. Where a file has transposed or interleaved matrices, all of an
///       expert's region is read even if a part is needed; memory for that region, and for the part
/// @throws argument_error if a tensor is not one of the family; file_error if the files have other
///         layers or experts, or a tensor is missing, has another shape, or is not of type F64,
///         F32, F16 or BF16: published fp8 has scales in other tensors, which are not read
inline void read_tensors(safetensors_set const& from, loaded_part const& part,
                         model_family const& family, std::span<int const> layers = {}) {
  auto const& about = part.about();
  auto const numbers = detail::layers_in_files(from, about, family, layers);
  auto const per_layer = about.experts() / about.layers;
  auto reader = detail::family_reader{from, family, per_layer};
  for (std::size_t g = 0; g < about.groups.size(); ++g) {
    auto target = detail::staged_target{part.staging(g)};
    for (std::size_t slot = 0; slot < part.owned().size(); ++slot)
      for (std::size_t k = 0; k < about.tensors.size(); ++k) {
        auto const expert = part.owned()[slot].expert.value();
        reader.read(about.tensors[k], numbers[static_cast<std::size_t>(expert / per_layer)],
                    expert_id{expert % per_layer}, part.extent(k, slot), about.groups[g].dtype,
                    part.bytes(g, k, slot), target);
      }
    target.finish();
  }
}

/// The same on all ranks: it succeeds on all of them, or throws on all; the contents of the memory
/// are then unspecified.
/// @cost that of read_tensors, and an all_gather of 512 bytes from each rank
/// @throws as read_tensors on the rank that has failed; a file_error that names that rank on the
///         others; transport errors
template <communicator Comm>
void load_tensors(Comm& comm, std::filesystem::path const& from, loaded_part const& part,
                  model_family const& family, std::span<int const> layers = {}) {
  (void)detail::together(comm, "load_tensors", [&] {
    read_tensors(safetensors_set{from}, part, family, layers);
    return 0;
  });
}
/// The same for the family that is recognised by the names in the files.
/// @cost the same
/// @throws also as recognise_family
template <communicator Comm>
void load_tensors(Comm& comm, std::filesystem::path const& from, loaded_part const& part) {
  (void)detail::together(comm, "load_tensors", [&] {
    auto const files = safetensors_set{from};
    read_tensors(files, part, recognise_family(files));
    return 0;
  });
}

}  // namespace fssdp
