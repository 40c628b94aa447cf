// SPDX-License-Identifier: Apache-2.0
/// What communicators over process groups are told besides the group.
#pragma once

#include <chrono>
#include <functional>

#include "fssdp/comm/c10d/c10d_backend.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// How a rank waits for the others of a process group, and how it makes another one.
struct c10d_options {
  /// How long a rank waits for a message. The timeout of the group is not used.
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  /// Makes another group of the same ranks, for `duplicate`: c10d has no call for that. All ranks
  /// call it together, as they do dist.new_group.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> make_group = {};
};

namespace detail {

/// Another group.
/// @throws argument_error if nobody makes one
[[nodiscard]] inline c10::intrusive_ptr<c10d::ProcessGroup> c10d_group_from(
    c10d_options const& options) {
  require(options.make_group != nullptr,
          "duplicate: c10d makes no copies of a group; expected c10d_options::make_group, which "
          "makes another one");
  return options.make_group();
}

}  // namespace detail
}  // namespace fssdp
