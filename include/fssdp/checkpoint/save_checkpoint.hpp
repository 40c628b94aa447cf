// SPDX-License-Identifier: Apache-2.0
/// Saves what all ranks own: a file for each rank, then an index that makes the checkpoint
/// complete.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/safetensors_header.hpp"
#include "fssdp/checkpoint/save_lock.hpp"
#include "fssdp/checkpoint/together.hpp"
#include "fssdp/checkpoint/write_rank_file.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/new_file.hpp"
#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/posix_folder.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

/// Options of save_checkpoint.
struct save_options {
  std::filesystem::path folder;  ///< of all steps
  std::uint64_t step = 0;
  std::string state = {};  ///< any text of the caller, to be loaded again; that of rank 0 is saved
  /// How many steps are kept, including this one; older ones are removed, complete or not, even
  /// while they are read. 0: all.
  int keep = 0;
};

namespace detail {

/// Rejects names of tensors that readers would not find.
/// @throws argument_error
inline void require_names(char const* caller, part_description const& about) {
  if (about.slices > 1 || about.owners.empty()) return;  // names of slices are always longer
  // Expert 0 stands for all: a name with an expert's number in it is never that of the notes.
  for (auto const& group : about.groups)
    for (std::size_t k = 0; k < about.tensors.size(); ++k)
      require(about.tensor_name(expert_id{0}, k, group.name) != safetensors_notes_name, caller,
              ": part '", about.name, "' has a tensor of the name '", safetensors_notes_name,
              "', which safetensors files keep for notes; expected another name");
}
/// `rank_3_of_4.1.safetensors`: every attempt to save a step has its own files, so that those of a
/// complete checkpoint are never overwritten.
[[nodiscard]] inline std::string rank_file_name(rank_id rank, int ranks, std::uint64_t attempt) {
  return "rank_" + std::to_string(rank.value()) + "_of_" + std::to_string(ranks) + '.' +
         std::to_string(attempt) + ".safetensors";
}

/// The name of the index of an attempt before it is complete.
[[nodiscard]] inline std::string partial_index_name(std::uint64_t attempt) {
  return std::string{checkpoint_index_name} + '.' + std::to_string(attempt) + ".partial";
}
/// The number of the attempt to which a file in the folder of a step belongs, by its name: 0 if it
/// has no number; empty if it does not belong to an attempt, as the index.
[[nodiscard]] inline std::optional<std::uint64_t> attempt_of(std::string_view name) {
  auto const is_index =
      name.starts_with(checkpoint_index_name) && name.size() > checkpoint_index_name.size();
  if (!(is_index && name.ends_with(".partial")) &&
      !(name.starts_with("rank_") && name.find(".safetensors") != name.npos))
    return {};
  name.remove_prefix(is_index ? checkpoint_index_name.size() + 1 : name.find('.') + 1);
  auto attempt = std::uint64_t{0};
  (void)std::from_chars(name.data(), name.data() + name.size(), attempt);
  return attempt;
}

/// The first number that no attempt to save this step has.
/// @throws file_error if the folder cannot be read or does not exist
[[nodiscard]] inline std::uint64_t next_attempt(std::filesystem::path const& of_step) {
  auto attempt = std::uint64_t{1};
  auto failed = std::error_code{};
  auto entries = std::filesystem::directory_iterator{of_step, failed};
  for (; !failed && entries != std::filesystem::directory_iterator{}; entries.increment(failed)) {
    auto const had = attempt_of(entries->path().filename().string());
    if (!had.has_value()) continue;
    require_file(*had != std::numeric_limits<std::uint64_t>::max(), entries->path(),
                 "takes the last number of an attempt; expected that nobody else makes files here");
    attempt = std::max(attempt, *had + 1);
  }
  require_file(!failed, of_step, "cannot list it: ", failed.message());
  return attempt;
}

/// Starts an attempt on rank 0: claims a number that no other save of this step has, with or
/// without locks, by creating the file of rank 0 with that number.
/// @throws file_error
[[nodiscard]] inline std::uint64_t claim_attempt(std::filesystem::path const& of_step, int ranks,
                                                 std::optional<new_file>& file) {
  for (auto attempt = next_attempt(of_step);;
       attempt = std::max(attempt + 1, next_attempt(of_step)))  // if another save took this number
    if (auto created =
            posix_file::create_unless_there(of_step / rank_file_name(rank_id{0}, ranks, attempt))) {
      file.emplace(std::move(*created));
      return attempt;
    }
}

/// Removes files of attempts before `first_kept`, each rank a part of them, and on rank 0 older
/// checkpoints. Errors are ignored, as the checkpoint is complete in any case.
template <communicator Comm>
void clear_away(Comm const& comm, save_options const& options, std::uint64_t first_kept) try {
  auto const of_step = step_folder(options.folder, options.step);
  auto const ranks = static_cast<std::uint64_t>(comm.size());
  auto stale = std::vector<std::filesystem::path>{};
  for (auto const& entry : std::filesystem::directory_iterator{of_step}) {
    auto const name = entry.path().filename().string();
    auto const attempt = attempt_of(name);
    if (attempt.has_value() && *attempt < first_kept &&
        checksum(name) % ranks == comm.rank().index())
      stale.push_back(entry.path());
  }
  for (auto const& path : stale) {
    auto ignored = std::error_code{};
    std::filesystem::remove(path, ignored);
  }
  if (comm.rank() != rank_id{0} || options.keep == 0) return;
  auto kept = complete_steps(options.folder);
  std::erase_if(kept, [&](std::uint64_t step) { return step > options.step; });
  auto const many = static_cast<std::size_t>(options.keep);
  if (kept.size() > many) kept.erase(kept.begin(), kept.end() - options.keep);
  for (auto const step : steps_in(options.folder))  // incomplete ones, too
    if (!kept.empty() && step < kept.front()) try {
        remove_checkpoint(step_folder(options.folder, step));
      } catch (file_error const&) {  // others can still be removed
      }
} catch (std::exception const&) {
  return;
}

}  // namespace detail

/// Saves the parts of all ranks as the checkpoint of a step.
///
/// @param parts of this rank; names, layouts and types are equal on all ranks
/// @return the folder of the step
/// @pre every rank calls, and sees the same file system; memory is host memory, or was added with a
///      device_staging; no rank writes for longer than the deadline of the communicator
/// @post the checkpoint is complete and survives a power failure. If a call fails or is interrupted
///       at any time, complete checkpoints are unchanged; for the same step, the old or the new one
///       is complete. Only one save at a time can use a folder: rank 0 holds a lock on
///       FOLDER/checkpoint.lock, and another save throws. On file systems without locks both
///       continue: each has its own files, and the index that is written last is kept
/// @cost one file per rank, written once and flushed; three all_gathers of 512 bytes each
/// @throws argument_error, file_error: on the rank that has failed with the cause, on others with
///         that rank's name; ranks_disagree if parts differ; transport errors
template <communicator Comm>
std::filesystem::path save_checkpoint(Comm& comm, std::span<saved_part const> parts,
                                      save_options const& options) {
  constexpr auto caller = "save_checkpoint";
  auto const of_step = step_folder(options.folder, options.step);
  auto index =
      checkpoint_index{.step = options.step, .state = options.state, .files = {}, .parts = {}};
  for (auto const& part : parts) index.parts.push_back(part.about());

  struct beginning {
    std::uint64_t description;
    std::uint64_t attempt;
    std::uint64_t first_kept;  // of the attempts; all are kept if there is no lock
  };
  auto lock = std::optional<detail::save_lock>{};  // of rank 0, until all files are complete
  auto file = std::optional<detail::new_file>{};
  auto const begun = detail::together(comm, caller, [&] {
    detail::require(options.keep >= 0, caller, ": keep ", options.keep, "; expected 0 or more");
    detail::require(!options.folder.empty(), caller, ": no folder is given; expected one");
    for (auto const& part : parts)
      detail::require(
          std::ranges::count(index.parts, part.about().name, &part_description::name) == 1, caller,
          ": two parts have the name '", part.about().name, "'");
    for (auto const& part : parts)
      detail::require(part.rank() == comm.rank() && part.ranks() == comm.size(), caller, ": part '",
                      part.about().name, "' is of rank ", part.rank(), " of ", part.ranks(),
                      "; this is rank ", comm.rank(), " of ", comm.size());
    for (auto const& part : parts) detail::require_names(caller, part.about());
    auto const described =
        checkpoint_index{.step = index.step, .state = {}, .files = {}, .parts = index.parts};
    auto result = beginning{checksum(to_text(described)), 0, 0};
    if (comm.rank() == rank_id{0}) {
      (void)to_text(index);  // checks that the state is UTF-8
      detail::make_folder(options.folder);
      lock.emplace(options.folder);
      detail::make_folder(of_step);
      (void)detail::posix_folder::open_unlinked(of_step);
      detail::flush_folder(options.folder);  // it may exist without having been flushed
      detail::flush_folder(options.folder.parent_path());
      result.attempt = detail::claim_attempt(of_step, comm.size(), file);
      if (lock->is_held()) result.first_kept = result.attempt;
    }
    return result;
  });
  for (auto const rank : first_n<rank_id>(comm.size())) {
    if (begun[rank.index()].description == begun.front().description) continue;
    detail::part_together(comm);
    throw ranks_disagree{rank, detail::text(caller, ": rank ", rank,
                                            " has other parts, or another step, than rank 0")};
  }

  auto const path_of = [&](rank_id rank) {
    return of_step / detail::rank_file_name(rank, comm.size(), begun.front().attempt);
  };
  struct written {
    std::uint64_t bytes;
    std::uint64_t header;
  };
  auto const files = detail::together(comm, caller, [&] {
    if (!file.has_value()) file.emplace(path_of(comm.rank()));
    auto const about = detail::write_rank_file(*file, parts);
    return written{about.bytes, about.header};
  });
  for (auto const rank : first_n<rank_id>(comm.size()))
    index.files.push_back(
        {path_of(rank).filename().string(), files[rank.index()].bytes, files[rank.index()].header});
  (void)detail::together(comm, caller, [&] {
    if (comm.rank() != rank_id{0}) return 0;
    auto const text = to_text(index);
    (void)parse_checkpoint_index(text);  // checks that it can be loaded
    detail::replace_file(of_step / checkpoint_index_name,
                         of_step / detail::partial_index_name(begun.front().attempt), text);
    return 0;
  });
  detail::clear_away(comm, options, begun.front().first_kept);
  return of_step;
}

}  // namespace fssdp
