// SPDX-License-Identifier: Apache-2.0
/// One save at a time in a folder of checkpoints.
#pragma once

#include <filesystem>
#include <string_view>

#include "fssdp/file/posix_file.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp::detail {

inline constexpr auto save_lock_name = std::string_view{"checkpoint.lock"};

/// Is held as long as it lives; a process that ends in whatever way holds it no longer. The file
/// stays in the folder, empty: were it removed, two savers could each lock one of that name.
class save_lock {
 public:
  /// @post it is held, unless the file system knows no locks
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
