// SPDX-License-Identifier: Apache-2.0
/// What communicators over process groups are told besides the group.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// How a rank waits for the others of a process group, and how it makes another one.
struct c10d_options {
  /// How long a rank waits for a message. The timeout of the group is not used.
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  /// Makes another group of the same ranks, for `duplicate`: c10d has no call for that. All ranks
  /// call it together, as they do dist.new_group.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> make_group = {};
  /// Makes a group of some ranks of the group, ascending, for `without`: those call it together.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>(std::span<rank_id const>)> make_group_of =
      {};
  /// Where the ranks meet that are left when some are lost, for `find_lost`: all of them reach it,
  /// and it does not end with a lost one. The server of a TCPStore had better not be a rank.
  c10::intrusive_ptr<c10d::Store> store = {};
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

/// What a communicator between the ranks that are left is told: its groups are made by the same
/// maker, which goes on naming ranks as before.
/// @throws argument_error if nobody makes groups of some ranks
[[nodiscard]] inline c10d_options c10d_options_of(c10d_options const& options,
                                                  std::vector<rank_id> const& left) {
  require(options.make_group_of != nullptr,
          "without: c10d makes no group of some ranks of another; expected "
          "c10d_options::make_group_of, which makes one");
  auto of_left = options;
  of_left.make_group = [make = options.make_group_of, left] { return make(left); };
  of_left.make_group_of = [make = options.make_group_of, left](std::span<rank_id const> ranks) {
    auto named = std::vector<rank_id>{};
    for (auto const rank : ranks) named.push_back(left[rank.index()]);
    return make(named);
  };
  return of_left;
}

}  // namespace detail
}  // namespace fssdp
