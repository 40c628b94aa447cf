// SPDX-License-Identifier: Apache-2.0
/// Inspects a folder or a file.
#pragma once

#include <filesystem>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/file/require_file.hpp"
#include "inspection.hpp"
#include "look_at_checkpoint.hpp"
#include "look_at_model.hpp"
#include "options.hpp"

namespace stored {

/// @throws fssdp::file_error if there is nothing, or no complete checkpoint
[[nodiscard]] inline inspection inspect_folder(options const& asked) {
  auto const& at = asked.folder;
  fssdp::detail::require_file(std::filesystem::exists(at), at, "is not there");
  if (!std::filesystem::is_directory(at)) return detail::look_at_model(asked);
  if (std::filesystem::exists(at / fssdp::checkpoint_index_name) ||
      !fssdp::detail::steps_in(at).empty())
    return detail::look_at_checkpoint(asked);
  fssdp::detail::require_file(!detail::model_files(at).empty(), at,
                              "has neither checkpoints (step_*/", fssdp::checkpoint_index_name,
                              ") nor files *.safetensors");
  return detail::look_at_model(asked);
}

}  // namespace stored
