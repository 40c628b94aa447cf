// SPDX-License-Identifier: Apache-2.0
/// Folders of checkpoints: one folder for each step, which is complete as soon as it contains an
/// index.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fssdp/file/posix_folder.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

/// The name of the index in the folder of a step.
inline constexpr auto checkpoint_index_name = std::string_view{"checkpoint.json"};

/// The folder of a step: FOLDER/step_00000020.
[[nodiscard]] inline std::filesystem::path step_folder(std::filesystem::path const& folder,
                                                       std::uint64_t step) {
  auto digits = std::to_string(step);
  digits.insert(0, 8 - std::min<std::size_t>(8, digits.size()), '0');
  return folder / ("step_" + digits);
}

namespace detail {

/// The steps that have a folder in a folder, ascending; empty if the folder does not exist.
/// @throws file_error if it cannot be read
[[nodiscard]] inline std::vector<std::uint64_t> steps_in(std::filesystem::path const& folder) {
  auto steps = std::vector<std::uint64_t>{};
  auto failed = std::error_code{};
  auto entries = std::filesystem::directory_iterator{folder, failed};
  if (failed == std::errc::no_such_file_or_directory) return steps;
  for (; !failed && entries != std::filesystem::directory_iterator{}; entries.increment(failed)) {
    auto const name = entries->path().filename().string();
    auto step = std::uint64_t{0};
    auto const digits = std::string_view{name}.substr(std::min<std::size_t>(5, name.size()));
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), step);
    if (entries->path() == step_folder(folder, step)) steps.push_back(step);
  }
  require_file(!failed, folder, "cannot list it: ", failed.message());
  std::ranges::sort(steps);
  return steps;
}

}  // namespace detail

/// The steps with a complete checkpoint in a folder, ascending; empty if the folder does not exist.
/// @throws file_error if it cannot be read
[[nodiscard]] inline std::vector<std::uint64_t> complete_steps(
    std::filesystem::path const& folder) {
  auto steps = detail::steps_in(folder);
  std::erase_if(steps, [&](std::uint64_t step) {
    auto ignored = std::error_code{};
    return !std::filesystem::is_regular_file(step_folder(folder, step) / checkpoint_index_name,
                                             ignored);
  });
  return steps;
}

/// The folder of the last complete checkpoint: the given folder if it is that of a step, otherwise
/// the last step in it.
/// @throws file_error if there is none
[[nodiscard]] inline std::filesystem::path last_checkpoint(std::filesystem::path const& folder) {
  auto ignored = std::error_code{};
  if (std::filesystem::exists(folder / checkpoint_index_name, ignored)) return folder;
  auto const steps = complete_steps(folder);
  detail::require_file(!steps.empty(), folder, "has no complete checkpoint");
  return step_folder(folder, steps.back());
}

/// Removes a checkpoint. At no time does an incomplete checkpoint look complete. If its folder is a
/// symbolic link, nothing is removed.
/// @throws file_error
inline void remove_checkpoint(std::filesystem::path const& of_step) {
  auto const folder = detail::posix_folder::open_unlinked(of_step);
  folder.remove(checkpoint_index_name);
  folder.flush();
  auto failed = std::error_code{};
  (void)std::filesystem::remove_all(folder.path(), failed);
  detail::require_file(!failed, of_step, "cannot remove it: ", failed.message());
}

}  // namespace fssdp
