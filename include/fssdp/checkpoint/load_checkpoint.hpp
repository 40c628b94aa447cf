// SPDX-License-Identifier: Apache-2.0
/// Loads what a rank owns, whichever ranks owned it when it was saved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

/// A complete checkpoint, open for reading. Files are opened when they are needed: if the
/// checkpoint is removed or saved again meanwhile, that fails, and it must be opened again.
class checkpoint_reader {
 public:
  /// @param folder of a step; or of all steps, then the last complete one is opened
  /// @throws file_error that names the file and the cause
  explicit checkpoint_reader(std::filesystem::path const& folder)
      : folder_{last_checkpoint(folder)},
        index_{read_checkpoint_index(folder_ / checkpoint_index_name)},
        files_(index_.files.size()) {}

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  [[nodiscard]] checkpoint_index const& index() const { return index_; }

  /// Reads a part: each of its groups from the group with the same name, converted if the types
  /// differ. Padding after short slices is not changed.
  /// @cost reads what this rank owns; for each slice of which only a part is needed, also the rest
  ///       of its first and last block of 1 MiB; and the checksums of all that is read
  /// @throws argument_error if the checkpoint has other experts or groups; file_error if a file was
  ///         changed
  void read(loaded_part const& part) {
    auto const& mine = part.about();
    auto const& saved = index_.part(mine.name);
    detail::require(mine.experts() == saved.experts() && mine.layers == saved.layers, "part '",
                    mine.name, "': ", mine.experts(), " experts in ", mine.layers,
                    " layers; the checkpoint has ", saved.experts(), " in ", saved.layers);
    if (mine.tensors != saved.tensors)
      throw argument_error{
          detail::text("part '", mine.name, "': the names and shapes of its tensors are ",
                       detail::names_and_shapes(mine.tensors), "; expected ",
                       detail::names_and_shapes(saved.tensors), ", as in the checkpoint")};
    for (std::size_t g = 0; g < mine.groups.size(); ++g) {
      auto const at =
          std::ranges::find(saved.groups, mine.groups[g].name, &part_description::group::name);
      detail::require(at != saved.groups.end(), "part '", mine.name, "': the checkpoint has no ",
                      mine.groups[g].name);
      auto target = detail::staged_target{part.staging(g)};
      for (std::size_t k = 0; k < mine.tensors.size(); ++k)
        for (std::size_t slot = 0; slot < part.owned().size(); ++slot)
          read_chunk(saved, *at, k, part.owned()[slot].expert, part.extent(k, slot),
                     mine.groups[g].dtype, part.bytes(g, k, slot), target);
      target.finish();
    }
  }

 private:
  /// Reads elements of a whole tensor from the slices in which it was saved.
  void read_chunk(part_description const& saved, part_description::group const& group,
                  std::size_t tensor, expert_id expert, slice_extent const& wanted,
                  file_dtype dtype, std::span<std::byte> to, detail::staged_target& target) {
    auto const whole = saved.tensors[tensor].elements();
    auto const room = slice_elements(whole, saved.slices);
    for (auto at = wanted.first; at < wanted.first + wanted.elements;) {
      auto const slice = slice_id{at / room};
      auto const extent = slice_extent{whole, slice, saved.slices};
      auto const end = std::min(wanted.first + wanted.elements, extent.first + extent.elements);
      auto const owner =
          saved.owners[expert.index() * static_cast<std::size_t>(saved.slices) + slice.index()];
      auto const& file = file_of(rank_id{owner});
      auto const name =
          detail::slice_name(saved.tensor_name(expert, tensor, group.name), extent, saved.slices);
      auto const found = file.header().find(name);
      detail::require_file(found.has_value(), file.path(), "has no tensor '", name, "'");
      auto const& stored = file.header().tensors()[*found];
      detail::require_file(stored.dtype == group.dtype &&
                               stored.bytes == extent.elements * element_bytes(group.dtype),
                           file.path(), "tensor '", name, "' has ", stored.bytes, " bytes of ",
                           name_of(stored.dtype), "; expected ", extent.elements, " elements of ",
                           name_of(group.dtype));
      auto const size = element_bytes(dtype);
      file.read(*found, at - extent.first, dtype,
                to.subspan((at - wanted.first) * size, (end - at) * size), scratch_, target);
      at = end;
    }
  }

  [[nodiscard]] safetensors_file const& file_of(rank_id rank) {
    auto& file = files_[rank.index()];
    if (file.has_value()) return *file;
    auto const& expected = index_.files[rank.index()];
    file.emplace(folder_ / expected.name);
    auto const differs =
        file->bytes() != expected.bytes || file->header_checksum() != expected.header;
    if (differs) {
      file.reset();
      detail::refuse_file(folder_ / expected.name,
                          "is not the file that the checkpoint consists of: its header differs");
    }
    return *file;
  }

  std::filesystem::path folder_;
  checkpoint_index index_;
  std::vector<std::optional<safetensors_file>> files_;  // [ranks]; opened when needed
  scratch_memory scratch_;
};

/// Loads the parts of all ranks from a checkpoint: with any number of ranks, any layout and any
/// slicing.
/// @pre every rank calls, and sees the same file system; memory is host memory, or was added with a
///      device_staging; no rank reads for longer than the deadline of the communicator
/// @post the saved values, rounded where the type has fewer bits
/// @cost as checkpoint_reader; two all_gathers of 512 bytes
/// @throws exceptions of checkpoint_reader on the rank that has failed; a file_error that names
///         that rank on the others; ranks_disagree if ranks have opened different checkpoints;
///         transport errors. The contents of the memory are then unspecified
template <communicator Comm>
void load_checkpoint(Comm& comm, checkpoint_reader& from, std::span<loaded_part const> parts) {
  constexpr auto caller = "load_checkpoint";
  auto const opened =
      detail::together(comm, caller, [&] { return checksum(to_text(from.index())); });
  for (auto const rank : first_n<rank_id>(comm.size())) {
    if (opened[rank.index()] == opened.front()) continue;
    detail::part_together(comm);
    throw ranks_disagree{
        rank, detail::text(caller, ": rank ", rank, " has opened another checkpoint than rank 0")};
  }
  (void)detail::together(comm, caller, [&] {
    for (auto const& part : parts) {
      detail::require(part.rank() == comm.rank() && part.ranks() == comm.size(), caller, ": part '",
                      part.about().name, "' is of rank ", part.rank(), " of ", part.ranks(),
                      "; this is rank ", comm.rank(), " of ", comm.size());
      from.read(part);
    }
    return 0;
  });
}

}  // namespace fssdp
