// SPDX-License-Identifier: Apache-2.0
/// Files for what a rank keeps there, and which memory is for what.
#pragma once

#include <filesystem>
#include <memory>
#include <memory_resource>

#include "fssdp/file/file_memory.hpp"
#include "optimizer_shard.hpp"
#include "options.hpp"

namespace moe_gpt {

/// Where files go, or null where there are none. Outlives the model.
/// @throws fssdp::file_error, std::filesystem::filesystem_error if there is no such folder
[[nodiscard]] inline std::unique_ptr<fssdp::file_memory> files_for(options const& chosen) {
  if (chosen.offload == offload::none) return nullptr;
  return std::make_unique<fssdp::file_memory>(chosen.offload_folder.empty()
                                                  ? std::filesystem::temp_directory_path()
                                                  : chosen.offload_folder);
}

/// @param files those of files_for
/// @param otherwise where values are that are not in files
[[nodiscard]] inline shard_memory owned_memory(options const& chosen, fssdp::file_memory* files,
                                               std::pmr::memory_resource* otherwise) {
  auto memory = shard_memory{.values = otherwise};
  if (chosen.offload == offload::all) memory.values = files;
  if (chosen.offload != offload::none) memory.moments = files;
  return memory;
}

}  // namespace moe_gpt
