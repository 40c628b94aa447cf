// SPDX-License-Identifier: Apache-2.0
/// A file that is there whole, or not at all.
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

/// Is removed again unless it is finished. What was there before is never written to.
class new_file {
 public:
  /// @throws file_error if it cannot be created, or there is something of that name
  explicit new_file(std::filesystem::path const& path) : new_file{posix_file::create(path)} {}
  /// @param file that the caller has created
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
  /// @post it outlives a power failure
  /// @throws file_error
  void finish() {
    file_.flush();
    file_.close();
    flush_folder(path().parent_path());
    is_finished_ = true;
  }
  /// The same under another name in its folder, in place of a file that has it.
  /// @post a crash at any moment leaves the old file, or the new one
  /// @throws file_error; the new file may be in its place all the same
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

/// Writes a file of this text in place of what has its name, whole or not at all.
/// @param partial its name until then, that nothing has
/// @throws file_error
inline void replace_file(std::filesystem::path const& path, std::filesystem::path const& partial,
                         std::string_view text) {
  auto file = new_file{partial};
  file.write_at(0, std::as_bytes(std::span{text}));
  file.finish_as(path);
}

}  // namespace fssdp::detail
