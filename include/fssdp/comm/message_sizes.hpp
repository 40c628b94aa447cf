// SPDX-License-Identifier: Apache-2.0
/// The sizes of the messages from one rank to another, which both ends compare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// The number of messages, the first sizes, and a hash of all. Of a fixed size, so that it can be
/// sent.
struct message_sizes {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< sum of all sizes
  std::uint64_t hash = 0;
  std::array<std::uint64_t, 8> first = {};

  void add(std::size_t size) {
    if (messages < first.size()) first[messages] = size;
    ++messages;
    bytes += size;
    hash = (hash ^ size) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  /// How the sizes that a peer sends differ from these expected ones; empty if they do not.
  [[nodiscard]] std::string difference(message_sizes const& sent) const {
    if (sent.messages != messages) return count_difference(messages, sent.messages);
    if (sent.hash == hash) return {};
    for (std::size_t i = 0; i < first.size(); ++i)
      if (sent.first[i] != first[i]) return size_difference(i, first[i], sent.first[i]);
    return text("all messages together should have ", bytes, " bytes, they have ", sent.bytes,
                "; they differ after the first ", first.size());
  }
};

}  // namespace fssdp::detail
