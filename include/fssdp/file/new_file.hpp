// SPDX-License-Identifier: Apache-2.0
/// A file that is written completely, or not at all.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/posix_folder.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp::detail {

/// A new file that is removed unless it is finished. Existing files are never written to.
class new_file {
 public:
  /// @throws file_error if it cannot be created, or the name exists
  explicit new_file(std::filesystem::path const& path) : new_file{posix_file::create(path)} {}
  /// @param file created by the caller
  explicit new_file(posix_file file) : file_{std::move(file)} {}
  new_file(new_file const&) = delete;
  new_file& operator=(new_file const&) = delete;
  ~new_file() {
    if (!is_finished_) (void)::unlink(file_.path().c_str());
  }

  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }
  /// @throws file_error
  void write_at(std::uint64_t position, std::span<std::byte const> bytes) {
    file_.write_at(position, bytes);
    constexpr auto many = std::size_t{1} << 20U;
    if (bytes.size() >= many) file_.begin_flush(position, bytes.size());
  }
  /// @post the contents survive a power failure
  /// @throws file_error
  void finish() {
    file_.flush();
    file_.close();
    flush_folder(path().parent_path());
    is_finished_ = true;
  }
  /// As finish, and renames the file within its folder, in place of an existing file.
  /// @post a crash at any moment leaves the old or the new file
  /// @throws file_error; the new file may have replaced the old one all the same
  void finish_as(std::filesystem::path const& name) {
    file_.flush();
    file_.close();
    if (std::rename(path().c_str(), name.c_str()) != 0)
      refuse_file_for(errno, name, "rename to this");
    is_finished_ = true;
    flush_folder(name.parent_path());
  }

 private:
  posix_file file_;
  bool is_finished_ = false;
};

/// Replaces a file by one with this text, atomically.
/// @param partial the name of the file while it is written; must not exist
/// @throws file_error
inline void replace_file(std::filesystem::path const& path, std::filesystem::path const& partial,
                         std::string_view text) {
  auto file = new_file{partial};
  file.write_at(0, std::as_bytes(std::span{text}));
  file.finish_as(path);
}

}  // namespace fssdp::detail
