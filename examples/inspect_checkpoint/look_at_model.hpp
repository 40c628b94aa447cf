// SPDX-License-Identifier: Apache-2.0
/// What the files of a published model hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fssdp/checkpoint/checkpoint_folder.hpp"
#include "fssdp/checkpoint/published_experts.hpp"
#include "fssdp/checkpoint/safetensors_index.hpp"
#include "fssdp/checkpoint/safetensors_set.hpp"
#include "fssdp/core/error.hpp"
#include "inspection.hpp"
#include "look_at_files.hpp"
#include "options.hpp"

namespace stored::detail {

/// The safetensors files at a path, by name.
[[nodiscard]] inline std::vector<std::filesystem::path> model_files(
    std::filesystem::path const& at) {
  if (!std::filesystem::is_directory(at)) return {at};
  auto files = std::vector<std::filesystem::path>{};
  for (auto const& entry : std::filesystem::directory_iterator{at})
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Compares the index with what is in the files.
/// @param in_file the file of each tensor
inline void compare_index(std::filesystem::path const& path,
                          std::map<std::string, std::string> const& in_file, inspection& shown) {
  auto index = fssdp::safetensors_index{};
  try {
    index = fssdp::read_safetensors_index(path);
  } catch (fssdp::file_error const& error) {
    shown.problems.emplace_back(error.what());
    return;
  }
  auto missing = std::vector<std::string>{};
  auto elsewhere = std::vector<std::string>{};
  auto files = std::vector<std::string>{};  // missing ones
  for (auto const& [tensor, file] : index.files) {
    auto const found = in_file.find(tensor);
    if (found == in_file.end()) missing.push_back(tensor);
    if (found != in_file.end() && found->second != file) elsewhere.push_back(tensor);
    if (!std::filesystem::exists(path.parent_path() / file) &&
        std::ranges::find(files, file) == files.end())
      files.push_back(file);
  }
  add_problem(shown, files.size(), "files of the index are not there", files);
  add_problem(shown, missing.size(), "tensors of the index are in no file", missing);
  add_problem(shown, elsewhere.size(), "tensors are in other files than the index says", elsewhere);
}

[[nodiscard]] inline inspection look_at_model(options const& asked) {
  auto shown = inspection{};
  shown.folder = asked.folder;
  auto in_file = std::map<std::string, std::string>{};
  for (auto const& path : model_files(asked.folder)) {
    auto const file = look_at_file(path, !asked.headers_only, shown);
    if (!file.has_value()) continue;
    for (auto const& tensor : file->header().tensors())
      in_file.emplace(tensor.name, path.filename().string());
  }
  auto const is_of_a_save = std::ranges::any_of(
      shown.files, [](file_report const& file) { return file.name.starts_with("rank_"); });
  if (is_of_a_save && std::filesystem::is_directory(asked.folder))
    shown.problems.push_back((asked.folder / fssdp::checkpoint_index_name).string() +
                             " is not there: the files of ranks are not a complete checkpoint");
  auto const index = asked.folder / fssdp::safetensors_index_name;
  shown.model.has_index = std::filesystem::exists(index);
  if (shown.model.has_index) compare_index(index, in_file, shown);
  try {
    shown.model.experts = fssdp::experts_in(fssdp::safetensors_set{asked.folder});
    auto const& experts = *shown.model.experts;
    add_problem(shown, experts.missing, "tensors of experts are in no file", experts.missing_names);
  } catch (fssdp::file_error const& error) {
    shown.model.why_none = error.what();
  }
  return shown;
}

}  // namespace stored::detail
