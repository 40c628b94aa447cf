// SPDX-License-Identifier: Apache-2.0
/// An open file: reads and writes at positions, errors that name it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "fssdp/core/require_file.hpp"

namespace fssdp::detail {

/// Owns a descriptor. Every function throws a file_error with the file's name and the cause.
class posix_file {
 public:
  /// An existing regular file, to be read.
  [[nodiscard]] static posix_file open(std::filesystem::path const& path) {
    auto file = posix_file{path, O_RDONLY | O_NONBLOCK, "open"};  // never waits for a pipe's writer
    require_file(S_ISREG(file.status().st_mode), path, "is no regular file");
    return file;
  }
  /// A new file, or one whose content goes.
  [[nodiscard]] static posix_file create(std::filesystem::path const& path) {
    return {path, O_RDWR | O_CREAT | O_TRUNC, "create"};
  }
  posix_file(posix_file&& other) noexcept
      : path_{std::move(other.path_)}, descriptor_{std::exchange(other.descriptor_, -1)} {}
  posix_file& operator=(posix_file&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~posix_file() {
    if (descriptor_ >= 0) (void)::close(descriptor_);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(status().st_size); }

  /// Fills `to` with what begins at a position.
  void read_at(std::uint64_t position, std::span<std::byte> to) const {
    while (!to.empty()) {
      auto const got = ::pread(descriptor_, to.data(), to.size(), static_cast<::off_t>(position));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse_file_for(errno, path_, "read");
      require_file(got > 0, path_, "ends at byte ", position, "; expected ", to.size(),
                   " bytes more");
      to = to.subspan(static_cast<std::size_t>(got));
      position += static_cast<std::uint64_t>(got);
    }
  }
  /// Writes all of `from` at a position.
  void write_at(std::uint64_t position, std::span<std::byte const> from) {
    while (!from.empty()) {
      auto const put =
          ::pwrite(descriptor_, from.data(), from.size(), static_cast<::off_t>(position));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) refuse_file_for(errno, path_, "write");
      require_file(put > 0, path_, "cannot write: the system takes no more");
      from = from.subspan(static_cast<std::size_t>(put));
      position += static_cast<std::uint64_t>(put);
    }
  }
  /// Has the disk begin with what was written there, where the system can be told so.
  void begin_flush([[maybe_unused]] std::uint64_t position, [[maybe_unused]] std::size_t length) {
#ifdef SYNC_FILE_RANGE_WRITE  // of Linux; a hint: what fails fails again in flush
    (void)::sync_file_range(descriptor_, static_cast<::off_t>(position),
                            static_cast<::off_t>(length), SYNC_FILE_RANGE_WRITE);
#endif
  }
  /// Returns when what was written would outlive a power failure.
  void flush() {
    while (::fsync(descriptor_) != 0)
      if (errno != EINTR) refuse_file_for(errno, path_, "flush");
  }
  /// Closes, and tells of an error that only comes then.
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)  // closed in any case
      refuse_file_for(errno, path_, "close");
  }

 private:
  posix_file(std::filesystem::path path, int flags, char const* deed)
      : path_{std::move(path)}, descriptor_{-1} {
    do {
      descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) refuse_file_for(errno, path_, deed);
  }
  [[nodiscard]] struct ::stat status() const {
    struct ::stat result {};
    if (::fstat(descriptor_, &result) != 0) refuse_file_for(errno, path_, "look at");
    return result;
  }

  std::filesystem::path path_;
  int descriptor_;
};

/// Returns when the names in a folder would outlive a power failure.
/// @throws file_error
inline void flush_folder(std::filesystem::path const& folder) {
  auto const path = folder.empty() ? std::filesystem::path{"."} : folder;
  auto const descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) refuse_file_for(errno, path, "open");
  auto failed = 0;
  do {
    failed = ::fsync(descriptor) != 0 ? errno : 0;
  } while (failed == EINTR);
  (void)::close(descriptor);
  if (failed != 0 && failed != EINVAL) refuse_file_for(failed, path, "flush");  // some know no way
}

/// Makes a folder and those above it, and flushes their names.
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
