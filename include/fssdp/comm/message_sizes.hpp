// SPDX-License-Identifier: Apache-2.0
/// The sizes of the messages from one rank to another, as both ends compare them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// How many messages there are, the first sizes, and a hash of all. Of a fixed size: it can be sent.
struct message_sizes {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< of all together
  std::uint64_t hash = 0;
  std::array<std::uint64_t, 8> first = {};

  void add(std::size_t size) {
    if (messages < first.size()) first[messages] = size;
    ++messages;
    bytes += size;
    hash = (hash ^ size) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  /// How those that a peer sends differ from these, which are expected; empty if not at all.
  [[nodiscard]] std::string difference(message_sizes const& sent) const {
    if (sent.messages != messages) return count_difference(messages, sent.messages);
    if (sent.hash == hash) return {};
    for (std::size_t i = 0; i < first.size(); ++i)
      if (sent.first[i] != first[i]) return size_difference(i, first[i], sent.first[i]);
    return text("all messages together should have ", bytes, " bytes, they have ", sent.bytes,
                "; they differ behind the first ", first.size());
  }
};

}  // namespace fssdp::detail
