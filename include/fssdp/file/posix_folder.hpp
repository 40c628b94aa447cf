// SPDX-License-Identifier: Apache-2.0
/// Folders: creates them, flushes them, and removes files.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fssdp/file/require_file.hpp"

namespace fssdp::detail {

/// An open folder. Every function throws a file_error with the folder's name and the cause.
class posix_folder {
 public:
  [[nodiscard]] static posix_folder open(std::filesystem::path const& path) {
    return {path.empty() ? std::filesystem::path{"."} : path, 0};
  }
  /// Opens a folder that is not a symbolic link.
  [[nodiscard]] static posix_folder open_unlinked(std::filesystem::path const& path) {
    auto folder = path.has_filename() ? path : path.parent_path();  // O_NOFOLLOW ignores "a/"
    auto ignored = std::error_code{};
    require_file(!std::filesystem::is_symlink(folder, ignored), folder,
                 "is a symbolic link; expected a folder");
    return {std::move(folder), O_NOFOLLOW};
  }
  posix_folder(posix_folder const&) = delete;
  posix_folder& operator=(posix_folder const&) = delete;
  ~posix_folder() { (void)::close(descriptor_); }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  /// Returns when the names in it survive a power failure.
  void flush() const {
    auto failed = 0;
    do {
      failed = ::fsync(descriptor_) != 0 ? errno : 0;
    } while (failed == EINTR);
    if (failed != 0 && failed != EINVAL)
      refuse_file_for(failed, path_, "flush");  // some file systems cannot
  }
  /// Removes a file or a link, if there is one.
  void remove(std::filesystem::path const& name) const {
    if (::unlinkat(descriptor_, name.c_str(), 0) == 0 || errno == ENOENT) return;
    refuse_file_for(errno, path_ / name, "remove");
  }

 private:
  posix_folder(std::filesystem::path path, int flags) : path_{std::move(path)} {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (descriptor_ < 0) refuse_file_for(errno, path_, "open");
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Returns when the names in a folder survive a power failure.
/// @throws file_error
inline void flush_folder(std::filesystem::path const& folder) {
  posix_folder::open(folder).flush();
}

/// Creates a folder and its parents, and flushes their names.
/// @throws file_error
inline void make_folder(std::filesystem::path const& folder) {
  auto ignored = std::error_code{};
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  make_folder(folder.parent_path());
  auto const failed = ::mkdir(folder.c_str(), 0777) == 0 ? 0 : errno;
  if (failed != 0 && !(failed == EEXIST && std::filesystem::is_directory(folder, ignored)))
    refuse_file_for(failed, folder, "make this folder");
  flush_folder(folder.parent_path());
}

}  // namespace fssdp::detail
