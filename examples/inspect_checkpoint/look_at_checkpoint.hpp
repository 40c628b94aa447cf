// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint of fssdp holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/checkpoint/checkpoint_index.hpp"
#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/core/chunk.hpp"
#include "inspection.hpp"
#include "look_at_files.hpp"
#include "options.hpp"

namespace stored::detail {

using opened_files = std::vector<std::optional<fssdp::safetensors_file>>;  // [ranks]

/// Opens the files of all ranks; those that are others than the index says are missing, too.
[[nodiscard]] inline opened_files open_files(fssdp::checkpoint_index const& index, bool verify,
                                             inspection& shown) {
  auto files = opened_files{};
  for (auto const& expected : index.files) {
    auto const path = shown.folder / expected.name;
    auto& file = files.emplace_back(look_at_file(path, verify, shown));
    if (!file.has_value()) continue;
    if (file->bytes() == expected.bytes && file->header_checksum() == expected.header) continue;
    shown.problems.push_back(path.string() +
                             ": is not the file that the checkpoint consists of: its header "
                             "differs");
    file.reset();
  }
  return files;
}

/// Adds up what ranks own of a part, and looks for its tensors.
[[nodiscard]] inline part_report look_at_part(fssdp::part_description const& about,
                                              opened_files const& files, inspection& shown) {
  auto report = part_report{about, std::vector<rank_share>(files.size())};
  auto missing = std::vector<std::string>{};
  for (std::size_t chunk = 0; chunk < about.owners.size(); ++chunk) {
    auto const number = static_cast<int>(chunk);
    auto const expert = fssdp::expert_id{number / about.slices};
    auto const slice = fssdp::slice_id{number % about.slices};
    auto const owner = static_cast<std::size_t>(about.owners[chunk]);
    ++report.ranks[owner].chunks;
    for (auto const& group : about.groups)
      for (std::size_t k = 0; k < about.tensors.size(); ++k) {
        auto const extent = fssdp::slice_extent{about.tensors[k].elements(), slice, about.slices};
        report.ranks[owner].bytes += extent.elements * element_bytes(group.dtype);
        if (extent.elements == 0 || !files[owner].has_value()) continue;
        auto name = fssdp::detail::slice_name(about.tensor_name(expert, k, group.name), extent,
                                              about.slices);
        if (!files[owner]->header().find(name).has_value()) missing.push_back(std::move(name));
      }
  }
  add_problem(shown, missing.size(), "tensors of part " + about.name + " are in no file", missing);
  return report;
}

/// @throws fssdp::file_error if there is no complete checkpoint, or its index cannot be read
[[nodiscard]] inline inspection look_at_checkpoint(options const& asked) {
  auto shown = inspection{};
  shown.folder = fssdp::last_checkpoint(asked.folder);
  auto const index = fssdp::read_checkpoint_index(shown.folder / fssdp::checkpoint_index_name);
  auto& report = shown.checkpoint.emplace();
  report.step = index.step;
  report.state_bytes = index.state.size();
  auto of_run = shown.folder.has_filename() ? shown.folder.parent_path() : shown.folder / "..";
  if (of_run.empty()) of_run = ".";
  report.complete_steps = fssdp::complete_steps(of_run);
  for (auto const step : fssdp::detail::steps_in(of_run))
    if (!std::ranges::binary_search(report.complete_steps, step))
      report.incomplete_steps.push_back(step);
  auto const files = open_files(index, !asked.headers_only, shown);
  for (auto const& part : index.parts)
    shown.checkpoint->parts.push_back(look_at_part(part, files, shown));
  return shown;
}

}  // namespace stored::detail
