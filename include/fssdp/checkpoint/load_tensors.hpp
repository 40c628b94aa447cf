// SPDX-License-Identifier: Apache-2.0
/// Reads experts out of files that others have written: a published model, by its tensors' names.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/checkpoint/tensor_pattern.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

/// The tensors of a safetensors file, or of all that are in a folder: those of one model.
class safetensors_set {
 public:
  /// @throws file_error that names the file and the cause, or the two that have the same tensor
  explicit safetensors_set(std::filesystem::path const& path) : path_{path} {
    for (auto const& file : files_at(path)) {
      auto const& opened = files_.emplace_back(file);
      for (std::size_t i = 0; i < opened.header().tensors().size(); ++i) {
        auto const& name = opened.header().tensors()[i].name;
        auto const [there, is_new] = tensors_.try_emplace(name, &opened, i);
        detail::require_file(is_new, file, "has the tensor '", name, "', as has ",
                             there->second.file->path().filename().string());
      }
    }
  }
  safetensors_set(safetensors_set const&) = delete;
  safetensors_set& operator=(safetensors_set const&) = delete;

  /// A tensor and the file that it is in.
  struct entry {
    safetensors_file const* file;
    std::size_t tensor;

    entry(safetensors_file const* in, std::size_t which) : file{in}, tensor{which} {}
    [[nodiscard]] stored_tensor const& about() const { return file->header().tensors()[tensor]; }
  };
  /// All tensors, by name.
  [[nodiscard]] std::map<std::string, entry, std::less<>> const& tensors() const {
    return tensors_;
  }
  /// @throws file_error if there is no tensor of that name
  [[nodiscard]] entry const& at(std::string_view name) const {
    auto const found = tensors_.find(name);
    detail::require_file(found != tensors_.end(), path_, "has no tensor '", name, "'");
    return found->second;
  }

 private:
  [[nodiscard]] static std::vector<std::filesystem::path> files_at(
      std::filesystem::path const& path) {
    auto failed = std::error_code{};
    if (!std::filesystem::is_directory(path, failed)) return {path};
    auto files = std::vector<std::filesystem::path>{};
    auto entries = std::filesystem::directory_iterator{path, failed};
    for (; !failed && entries != std::filesystem::directory_iterator{}; entries.increment(failed))
      if (entries->path().extension() == ".safetensors") files.push_back(entries->path());
    detail::require_file(!failed, path, "cannot list it: ", failed.message());
    detail::require_file(!files.empty(), path, "has no file *.safetensors");
    std::ranges::sort(files);
    return files;
  }

  std::filesystem::path path_;
  std::deque<safetensors_file> files_;
  std::map<std::string, entry, std::less<>> tensors_;
};

/// What names a tensor in a file: a tensor_pattern, or a function of the caller's.
template <class Naming>
concept tensor_naming = requires(Naming const& name, tensor_place const& place) {
  { name(place) } -> std::convertible_to<std::string>;
};
static_assert(tensor_naming<tensor_pattern>);

/// Fills the memory of a part from tensors of these names, converted if the types differ; each rank
/// for itself.
///
/// A tensor in the file has the shape that the part says, or is that of all experts of a layer,
/// [experts, shape...].
/// @cost reads what this rank owns
/// @throws file_error if a tensor is missing, has another shape, or is not of type F64, F32, F16 or
///         BF16: published fp8 has scales elsewhere, which are not read
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

/// The same on all ranks: it succeeds on all of them, or throws on all; then what the memory holds
/// is unspecified.
/// @throws as read_tensors where it fails; on the other ranks a file_error that names that rank;
///         transport errors
template <communicator Comm, tensor_naming Naming>
void load_tensors(Comm& comm, std::filesystem::path const& from, loaded_part const& part,
                  Naming const& naming) {
  (void)detail::together(comm, "load_tensors", [&] {
    read_tensors(safetensors_set{from}, part, naming);
    return 0;
  });
}

}  // namespace fssdp
