// SPDX-License-Identifier: Apache-2.0
/// The messages of a thread in an exchange: those that it sends, and those that it receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/thread/meeting_room.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

struct thread_messages {
  struct wanted_message {
    rank_id from;
    std::size_t place;   // index among those from the same rank
    std::size_t number;  // index among all messages that this batch receives
    std::size_t bytes;
    std::byte* into;  // null for a borrow
  };
  struct staged_message {
    std::span<std::byte const> bytes;
    bool held;
  };
  template <class Message>
  using per_peer = std::vector<std::vector<Message>>;

  rank_id me;
  int size;
  std::uint64_t sequence = 0;
  batch_label label = {};
  per_peer<staged_message> staged;
  per_peer<wanted_message> wanted;
  std::vector<std::pair<rank_id, std::size_t>> outgoing =
      {};                                  // in the order in which they are added
  std::vector<wanted_message> order = {};  // in that order; those not taken yet
  std::vector<std::size_t> missing;        // [ranks]: how many of these are from each
  std::size_t held = 0;
  std::size_t wanted_bytes = 0;  // sum of all
  rank_set peers;                // of any message

  thread_messages(rank_id rank, int ranks)
      : me{rank},
        size{ranks},
        staged(static_cast<std::size_t>(ranks)),
        wanted(staged.size()),
        missing(staged.size()),
        peers{staged.size()} {}

  /// Begins the next exchange, without messages.
  void begin() {
    for (auto& messages : staged) messages.clear();
    for (auto& messages : wanted) messages.clear();
    missing.assign(missing.size(), 0);
    order.clear();
    outgoing.clear();
    peers.clear();
    held = 0;
    wanted_bytes = 0;
    label = {};
    ++sequence;
  }
  void want(rank_id from, std::size_t bytes, std::byte* into) {
    auto& of = wanted[peer_index(me, from, size)];
    of.push_back({from, of.size(), order.size(), bytes, into});
    order.push_back(of.back());
    wanted_bytes += bytes;
    ++missing[from.index()];
    peers.insert(from);
  }
  void stage(std::span<std::byte const> bytes, rank_id to, bool is_held) {
    auto& of = staged[peer_index(me, to, size)];
    outgoing.emplace_back(to, of.size());
    of.push_back({bytes, is_held});
    held += is_held ? 1 : 0;
    peers.insert(to);
  }

  /// What is wrong with a peer's messages; empty if they are as expected.
  template <class Message>
  [[nodiscard]] std::string mismatch(std::uint64_t its_sequence, batch_label const& its_label,
                                     std::vector<Message> const& messages, rank_id from) const {
    auto const& of = wanted[from.index()];
    if (its_sequence != sequence || its_label != label)
      return difference({sequence, label}, {its_sequence, its_label});
    if (messages.size() != of.size()) return count_difference(of.size(), messages.size());
    for (std::size_t i = 0; i < of.size(); ++i)
      if (messages[i].bytes.size() != of[i].bytes)
        return size_difference(i, of[i].bytes, messages[i].bytes.size());
    return {};
  }
};

}  // namespace fssdp::detail
