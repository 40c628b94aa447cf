// SPDX-License-Identifier: Apache-2.0
/// An open file: positioned reads and writes, with errors that name it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "fssdp/file/require_file.hpp"

namespace fssdp::detail {

/// The result of an attempt to lock a file.
enum class lock_state { taken, of_another, unsupported };

/// Owns a file descriptor. Every function throws a file_error with the file's name and the cause.
class posix_file {
 public:
  /// Opens an existing regular file for reading.
  [[nodiscard]] static posix_file open(std::filesystem::path const& path) {
    // O_NONBLOCK: does not wait for the writer of a pipe
    auto file = posix_file{path, opened{path, O_RDONLY | O_NONBLOCK}, "open"};
    require_file(S_ISREG(file.status().st_mode), path, "is not a regular file");
    return file;
  }
  /// Creates a file; an error if the name exists, even as a dangling link.
  [[nodiscard]] static posix_file create(std::filesystem::path const& path) {
    return {path, opened{path, O_RDWR | O_CREAT | O_EXCL}, "create"};
  }
  /// The same; none if the name exists.
  [[nodiscard]] static std::optional<posix_file> create_unless_there(
      std::filesystem::path const& path) {
    auto const file = opened{path, O_RDWR | O_CREAT | O_EXCL};
    if (file.descriptor < 0 && file.error == EEXIST) return {};
    return posix_file{path, file, "create"};
  }
  /// Opens an existing regular file for writing; does not follow links.
  [[nodiscard]] static posix_file open_for_writing(std::filesystem::path const& path) {
    auto file = posix_file{path, opened{path, O_RDWR | O_NOFOLLOW | O_NONBLOCK}, "open"};
    require_file(S_ISREG(file.status().st_mode), path, "is not a regular file");
    return file;
  }
  /// Opens a regular file for locking, existing or new; does not follow links.
  [[nodiscard]] static posix_file open_or_create(std::filesystem::path const& path) {
    constexpr auto flags = O_NOFOLLOW | O_NONBLOCK;
    auto found = opened{path, O_RDWR | O_CREAT | flags};
    if (found.error == EACCES) found = opened{path, O_RDONLY | flags};  // a file of another user
    auto file = posix_file{path, found, "open"};
    require_file(S_ISREG(file.status().st_mode), path, "is not a regular file");
    return file;
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

  /// Reads `to.size()` bytes at a position.
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
  /// Locks it against all who open it, in this process or another; does not wait. Unlocked by
  /// unlock, or when the process ends.
  [[nodiscard]] lock_state try_lock() {
    auto failed = 0;
    do {
      failed = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
    } while (failed == EINTR);
    if (failed == 0) return lock_state::taken;
    return failed == EWOULDBLOCK ? lock_state::of_another : lock_state::unsupported;
  }
  void unlock() { (void)::flock(descriptor_, LOCK_UN); }
  /// Begins to write these bytes to disk, where the system supports that.
  void begin_flush([[maybe_unused]] std::uint64_t position, [[maybe_unused]] std::size_t length) {
#ifdef SYNC_FILE_RANGE_WRITE  // Linux; a hint: flush reports errors
    (void)::sync_file_range(descriptor_, static_cast<::off_t>(position),
                            static_cast<::off_t>(length), SYNC_FILE_RANGE_WRITE);
#endif
  }
  /// Returns when all that was written survives a power failure.
  void flush() {
    while (::fsync(descriptor_) != 0)
      if (errno != EINTR) refuse_file_for(errno, path_, "flush");
  }
  /// Closes the file, and reports errors that occur only then.
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)  // closed in any case
      refuse_file_for(errno, path_, "close");
  }

 private:
  struct opened {
    opened(std::filesystem::path const& path, int flags) {
      do {
        descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
        error = descriptor < 0 ? errno : 0;
      } while (error == EINTR);
    }
    int descriptor = -1;
    int error = 0;
  };
  posix_file(std::filesystem::path const& path, opened const& file, char const* deed)
      : path_{path}, descriptor_{file.descriptor} {
    if (descriptor_ < 0) refuse_file_for(file.error, path_, deed);
  }
  [[nodiscard]] struct ::stat status() const {
    struct ::stat result {};
    if (::fstat(descriptor_, &result) != 0) refuse_file_for(errno, path_, "look at");
    return result;
  }

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace fssdp::detail
