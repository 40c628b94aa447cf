// SPDX-License-Identifier: Apache-2.0
/// Options of communicators over process groups.
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

/// Deadline, and how other groups are made.
struct c10d_options {
  /// How long a rank waits for a message. The timeout of the group is not used.
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  /// Makes another group of the same ranks, for `duplicate`, as c10d has no call for that. All
  /// ranks call it together, like dist.new_group.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>()> make_group = {};
  /// Makes a group of some ranks of the group, ascending, for `without`. These ranks call it
  /// together.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>(std::span<rank_id const>)> make_group_of =
      {};
  /// The store in which the remaining ranks meet, for `find_lost`. All of them must be able to
  /// reach it, also after ranks are lost: the server of a TCPStore should not be a rank.
  c10::intrusive_ptr<c10d::Store> store = {};
};

namespace detail {

/// Makes another group.
/// @throws argument_error if make_group is not set
[[nodiscard]] inline c10::intrusive_ptr<c10d::ProcessGroup> c10d_group_from(
    c10d_options const& options) {
  require(options.make_group != nullptr,
          "duplicate: c10d cannot copy a group; expected c10d_options::make_group, which makes "
          "another one");
  return options.make_group();
}

/// The options of a communicator between the remaining ranks: it makes groups with the same
/// function, which still gets the old ranks.
/// @throws argument_error if make_group_of is not set
[[nodiscard]] inline c10d_options c10d_options_of(c10d_options const& options,
                                                  std::vector<rank_id> const& left) {
  require(options.make_group_of != nullptr,
          "without: c10d cannot make a group of some ranks of another one; expected "
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
