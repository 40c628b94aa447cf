// SPDX-License-Identifier: Apache-2.0
/// Saves experts in files as models of a family have them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/checkpoint/fused_matrix.hpp"
#include "fssdp/checkpoint/model_family.hpp"
#include "fssdp/checkpoint/published_files.hpp"
#include "fssdp/checkpoint/safetensors_index.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/new_file.hpp"
#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/posix_folder.hpp"
#include "fssdp/file/require_file.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

/// Options of save_tensors.
struct save_tensors_options {
  std::filesystem::path folder;  ///< without safetensors files of another model
  /// The number in the names of each layer of the part, such as published_experts::layers; empty:
  /// 0, 1, ...
  std::vector<int> layers = {};
  /// F64, F32, F16 or BF16; empty: the type of the memory
  std::optional<file_dtype> dtype = {};
  std::uint64_t file_bytes = 5'000'000'000;  ///< of the tensors of a file, unless one has more
};

namespace detail {

/// Writes what a rank owns into existing files.
class family_writer {
 public:
  family_writer(published_files const& files, std::filesystem::path const& folder,
                std::string const& suffix)
      : files_{files}, folder_{folder}, suffix_{suffix} {}

  /// @param layers the number of each layer of the part
  void write(saved_part const& part, model_family const& family, std::span<int const> layers,
             file_dtype dtype) {
    auto const& about = part.about();
    auto const per_layer = about.experts() / about.layers;
    for (std::size_t slot = 0; slot < part.owned().size(); ++slot) {
      auto const expert = part.owned()[slot].expert.value();
      for (auto const& pattern : family.patterns()) {
        auto const region = region_of(part, slot, family, pattern, dtype);
        if (region.empty()) continue;
        auto const in_layer = expert_id{expert % per_layer};
        auto const layer = layer_id{layers[static_cast<std::size_t>(expert / per_layer)]};
        auto const where = files_.at(tensor_pattern{pattern}({layer, in_layer, {}, {}}));
        auto const is_stacked = pattern.find("{expert}") == pattern.npos;
        auto const begin = where.first + (is_stacked ? in_layer.index() * region.size() : 0);
        auto& file = opened(where.file);
        for_each_run(element_bytes(dtype), [&](std::size_t first, std::size_t bytes) {
          file.write_at(begin + first, region.subspan(first, bytes));
        });
      }
    }
    for (auto& [which, file] : opened_) {
      file.flush();
      file.close();
    }
  }

 private:
  /// The region of an expert in a tensor of a pattern, as in the file. For a slice, only some of
  /// its elements are valid
  /// (for_each_run).
  [[nodiscard]] std::span<std::byte const> region_of(saved_part const& part, std::size_t slot,
                                                     model_family const& family,
                                                     std::string const& pattern, file_dtype dtype) {
    auto const& about = part.about();
    auto const size = element_bytes(dtype);
    auto region = std::span<std::byte>{};
    for (std::size_t k = 0; k < about.tensors.size(); ++k) {
      auto const& in_file = family.tensor(about.tensors[k].name);
      if (in_file.pattern != pattern) continue;
      auto const matrix = fused_matrix{about.tensors[k], in_file};
      if (region.empty()) {
        region = region_.reserve(matrix.region_elements() * size);
        is_there_.assign(matrix.region_elements(), std::byte{0});
      }
      auto const [first, elements] = part.extent(k, slot);
      auto const from = on_host(part.bytes(0, k, slot), part.staging(0));
      auto const own = converted_.reserve(elements * size);
      if (about.groups[0].dtype == dtype)
        std::ranges::copy(from, own.begin());
      else
        convert_elements(about.groups[0].dtype, from, dtype, own);
      matrix.scatter(own, first, size, region);
      marks_.assign(elements, std::byte{1});
      matrix.scatter(marks_, first, 1, is_there_);
    }
    return region;
  }
  /// Calls visit(first, bytes) for each run of valid elements of the last region.
  template <class Visit>
  void for_each_run(std::size_t size, Visit visit) const {
    for (auto at = is_there_.begin(); at != is_there_.end();) {
      auto const begin = std::find(at, is_there_.end(), std::byte{1});
      at = std::find(begin, is_there_.end(), std::byte{0});
      if (begin != at)
        visit(static_cast<std::size_t>(begin - is_there_.begin()) * size,
              static_cast<std::size_t>(at - begin) * size);
    }
  }
  [[nodiscard]] std::span<std::byte const> on_host(std::span<std::byte const> bytes,
                                                   device_staging* by) {
    if (by == nullptr) return bytes;
    constexpr auto block_bytes = std::size_t{1} << 20U;
    auto blocks = std::vector<source_block>{};
    for (auto rest = bytes; !rest.empty();) {
      auto const n = std::min(rest.size(), block_bytes);
      blocks.push_back({rest.first(n), by});
      rest = rest.subspan(n);
    }
    auto const copy = staged_.reserve(bytes.size());
    auto at = std::size_t{0};
    for_each_block(
        blocks,
        [&](std::span<std::byte const> block) {
          std::ranges::copy(block, copy.begin() + static_cast<std::ptrdiff_t>(at));
          at += block.size();
        },
        [] {});
    return copy;
  }
  [[nodiscard]] posix_file& opened(std::size_t which) {
    auto const there = opened_.find(which);
    if (there != opened_.end()) return there->second;
    auto const path = folder_ / (files_.files()[which].name + suffix_);
    return opened_.emplace(which, posix_file::open_for_writing(path)).first->second;
  }

  published_files const& files_;
  std::filesystem::path folder_;
  std::string suffix_;
  std::map<std::size_t, posix_file> opened_;
  scratch_memory region_;
  std::vector<std::byte> is_there_;  // [elements of the region]: whether it belongs to the chunk
  std::vector<std::byte> marks_;
  scratch_memory converted_;
  scratch_memory staged_;
};

/// The checksums of all blocks of a file's tensors, read from the file.
[[nodiscard]] inline std::string checksums_in(std::filesystem::path const& path,
                                              published_files::file const& about) {
  auto const file = posix_file::open(path);
  auto memory = scratch_memory{};
  auto sums = std::string{};
  for (auto const& tensor : about.tensors.tensors())
    for (auto first = std::uint64_t{0}; first < tensor.bytes; first += published_block_bytes) {
      auto const size = std::min(published_block_bytes, tensor.bytes - first);
      auto const block = memory.reserve(static_cast<std::size_t>(size));
      file.read_at(about.header.size() + tensor.first + first, block);
      sums += to_hex(checksum(block));
    }
  return sums;
}

/// @throws argument_error if a part cannot be saved in the form of the family
inline void require_publishable(saved_part const& part, model_family const& family,
                                save_tensors_options const& options) {
  constexpr auto caller = "save_tensors";
  auto const& about = part.about();
  require(!options.folder.empty(), caller, ": no folder is given; expected one");
  require(about.groups.size() == 1, caller, ": part '", about.name, "' has ", about.groups.size(),
          " groups; expected one, that of the weights");
  for (auto const& tensor : family.tensors)
    require(std::ranges::count(about.tensors, tensor.name, &whole_tensor::name) == 1, caller,
            ": part '", about.name, "' lacks the tensor '", tensor.name,
            "'; expected all of family ", family.name, ", each once");
  require(about.tensors.size() == family.tensors.size(), caller, ": part '", about.name, "' has ",
          about.tensors.size(), " tensors; expected the ", family.tensors.size(), " of family ",
          family.name);
  require(options.layers.empty() || options.layers.size() == static_cast<std::size_t>(about.layers),
          caller, ": ", options.layers.size(), " numbers of layers; the part '", about.name,
          "' has ", about.layers);
  for (auto const layer : options.layers)
    require(layer >= 0, caller, ": layer ", layer, "; expected a number of 0 or more");
  auto const dtype = options.dtype.value_or(about.groups[0].dtype);
  require(needs_no_scale(dtype), caller, ": type ", name_of(dtype),
          "; expected F64, F32, F16 or BF16");
  require(options.file_bytes > 0, caller, ": files of 0 bytes; expected 1 or more");
}
/// Files of another model would be taken for files of this one.
/// @throws file_error
inline void require_no_model(std::filesystem::path const& folder) {
  auto failed = std::error_code{};
  auto entries = std::filesystem::directory_iterator{folder, failed};
  for (; !failed && entries != std::filesystem::directory_iterator{}; entries.increment(failed)) {
    auto const name = entries->path().filename().string();
    require_file(name.find(".safetensors") == name.npos, entries->path(),
                 "is there already; expected a folder without safetensors files");
  }
  require_file(!failed, folder, "cannot list it: ", failed.message());
}

}  // namespace detail

/// Saves the experts of all ranks with the names and the storage order of a family: read_tensors
/// with this family loads the same bits. Writes one file model.safetensors or, if that would be
/// larger than options.file_bytes, several files and model.safetensors.index.json. Their notes have
/// checksums of the tensors, which this library checks when it reads them, and other readers
/// ignore.
///
/// @param part of this rank: experts, whole or in slices, all tensors of the family, one group
/// @pre every rank calls, and sees the same file system; memory is host memory, or was added with a
///      device_staging; no rank writes, or reads its files again, for longer than the deadline of
///      the communicator
/// @post other tensors of the model are not written; if they are added, they must be added to the
///       index, too. Files get their names when they are complete, and the index is written last;
///       an interrupted call leaves files that end in .partial
/// @cost each byte is written once, by its owner, with one call for each contiguous run of a slice
///       in the file; each file is read once, by one rank, for checksums; memory for five times the
///       region of an expert in a tensor; five all_gathers of 512 bytes
/// @throws argument_error if the part does not fit the family; file_error: on the rank that has
///         failed with the cause, on others with that rank's name, and if the folder has
///         safetensors files; ranks_disagree if parts or options differ; transport errors
template <communicator Comm>
void save_tensors(Comm& comm, saved_part const& part, model_family const& family,
                  save_tensors_options const& options) {
  constexpr auto caller = "save_tensors";
  auto const& about = part.about();
  auto layers = options.layers;
  auto dtype = file_dtype::f32;
  auto files = std::optional<detail::published_files>{};
  auto const described = detail::together(comm, caller, [&] {
    detail::require(part.rank() == comm.rank() && part.ranks() == comm.size(), caller, ": part '",
                    about.name, "' is of rank ", part.rank(), " of ", part.ranks(),
                    "; this is rank ", comm.rank(), " of ", comm.size());
    detail::require_publishable(part, family, options);
    if (layers.empty()) {
      layers.resize(static_cast<std::size_t>(about.layers));
      std::iota(layers.begin(), layers.end(), 0);
    }
    dtype = options.dtype.value_or(about.groups[0].dtype);
    files.emplace(about, family, layers, dtype, options.file_bytes);
    if (comm.rank() == rank_id{0}) {
      detail::make_folder(options.folder);
      detail::require_no_model(options.folder);
    }
    auto all = to_text(checkpoint_index{.state = {}, .files = {}, .parts = {about}});
    for (auto const& file : files->files()) all += file.name + file.header;
    return checksum(all);
  });
  for (auto const rank : first_n<rank_id>(comm.size())) {
    if (described[rank.index()] == described.front()) continue;
    detail::part_together(comm);
    throw ranks_disagree{rank, detail::text(caller, ": rank ", rank,
                                            " has another part, family or options than rank 0")};
  }

  auto const suffix = std::string{".partial"};
  auto mine = std::deque<detail::new_file>{};  // the files that this rank creates and renames
  (void)detail::together(comm, caller, [&] {
    for (auto f = comm.rank().index(); f < files->files().size();
         f += static_cast<std::size_t>(comm.size())) {
      auto const& about_file = files->files()[f];
      auto& file = mine.emplace_back(options.folder / (about_file.name + suffix));
      file.write_at(0, std::as_bytes(std::span{about_file.header}));
    }
    return 0;
  });
  (void)detail::together(comm, caller, [&] {
    detail::family_writer{*files, options.folder, suffix}.write(part, family, layers, dtype);
    return 0;
  });
  (void)detail::together(comm, caller, [&] {
    auto f = comm.rank().index();
    for (auto& file : mine) {
      auto const header = files->header_of(f, checksums_in(file.path(), files->files()[f]));
      file.write_at(0, std::as_bytes(std::span{header}));
      f += static_cast<std::size_t>(comm.size());
      auto name = file.path();
      file.finish_as(name.replace_extension());
    }
    return 0;
  });
  (void)detail::together(comm, caller, [&] {
    if (comm.rank() != rank_id{0} || files->files().size() == 1) return 0;
    auto const name = std::string{safetensors_index_name};
    detail::replace_file(options.folder / name, options.folder / (name + suffix),
                         to_text(files->index()));
    return 0;
  });
}

}  // namespace fssdp
