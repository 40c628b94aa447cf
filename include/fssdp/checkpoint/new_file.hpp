// SPDX-License-Identifier: Apache-2.0
/// A file that appears under its name whole, or not at all.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>

#include "fssdp/checkpoint/posix_file.hpp"

namespace fssdp::detail {

/// Is written under a temporary name, NAME.partial. `finish` flushes it and gives it its own, in
/// place of a file that has it; else nothing is left.
class new_file {
 public:
  /// @throws file_error if it cannot be created
  explicit new_file(std::filesystem::path const& path)
      : path_{path}, file_{posix_file::create(partial_of(path))} {}
  new_file(new_file const&) = delete;
  new_file& operator=(new_file const&) = delete;
  ~new_file() {
    if (!is_finished_) (void)::unlink(file_.path().c_str());
  }

  /// @throws file_error
  void write_at(std::uint64_t position, std::span<std::byte const> bytes) {
    file_.write_at(position, bytes);
    constexpr auto many = std::size_t{1} << 20U;
    if (bytes.size() >= many) file_.begin_flush(position, bytes.size());
  }
  /// @post a crash at any moment leaves the old file, or the new one
  /// @throws file_error; the new file may be in its place all the same
  void finish() {
    file_.flush();
    file_.close();
    if (std::rename(file_.path().c_str(), path_.c_str()) != 0)
      refuse_file_for(errno, path_, "rename to this");
    is_finished_ = true;
    flush_folder(path_.parent_path());
  }

 private:
  [[nodiscard]] static std::filesystem::path partial_of(std::filesystem::path path) {
    return path += ".partial";
  }

  std::filesystem::path path_;
  posix_file file_;
  bool is_finished_ = false;
};

/// Writes a file of this text, whole or not at all.
/// @throws file_error
inline void write_new_file(std::filesystem::path const& path, std::string_view text) {
  auto file = new_file{path};
  file.write_at(0, std::as_bytes(std::span{text}));
  file.finish();
}

}  // namespace fssdp::detail
