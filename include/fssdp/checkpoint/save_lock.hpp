// SPDX-License-Identifier: Apache-2.0
/// A lock, so that only one save at a time uses a folder of checkpoints.
#pragma once

#include <filesystem>
#include <string_view>

#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp::detail {

inline constexpr auto save_lock_name = std::string_view{"checkpoint.lock"};

/// Holds the lock during its lifetime; it is released when the process ends in any way. The file
/// stays in the folder, empty: if it were removed, two savers could lock different files of that
/// name.
class save_lock {
 public:
  /// @post the lock is held, unless the file system has no locks
  /// @throws file_error if another saver holds it
  explicit save_lock(std::filesystem::path const& folder)
      : file_{posix_file::open_or_create(folder / save_lock_name)} {
    auto const state = file_.try_lock();
    require_file(state != lock_state::of_another, file_.path(),
                 "is held by another save into this folder; expected one at a time: is an earlier "
                 "job still running?");
    is_held_ = state == lock_state::taken;
  }
  save_lock(save_lock const&) = delete;
  save_lock& operator=(save_lock const&) = delete;
  ~save_lock() {
    if (is_held_) file_.unlock();
  }

  [[nodiscard]] bool is_held() const { return is_held_; }

 private:
  posix_file file_;
  bool is_held_ = false;
};

}  // namespace fssdp::detail
