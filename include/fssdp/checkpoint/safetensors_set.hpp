// SPDX-License-Identifier: Apache-2.0
/// The tensors of several safetensors files as one set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

/// The tensors of a safetensors file, or of all safetensors files in a folder: those of one model.
class safetensors_set {
 public:
  /// @throws file_error that names the file and the cause, or two files with the same tensor
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

  /// A tensor and its file.
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
  /// The file or folder.
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  /// All files, by name.
  [[nodiscard]] std::deque<safetensors_file> const& files() const { return files_; }
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

}  // namespace fssdp
