// SPDX-License-Identifier: Apache-2.0
/// The messages of an exchange on one rank, and how they are sent over a process group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/message_sizes.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The tag of a message: computed from what both ends must agree on, so that no message is received
/// in place of another. Gloo accepts messages that are shorter than expected, and ends the process
/// at longer ones.
/// @param index of the message among those from the one rank to the other
/// @returns a number from 2 to most_tag: heads have 1, and messages of other users 0
[[nodiscard]] inline int c10d_tag(exchange_name const& of, std::size_t index, std::size_t bytes,
                                  std::uint64_t most_tag) {
  auto hash = of.label.plan;
  for (auto const part : {static_cast<std::uint64_t>(of.label.round), of.sequence,
                          std::uint64_t{index}, std::uint64_t{bytes}}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return static_cast<int>(2 + hash % (most_tag - 1));
}

/// Sent ahead of the messages of a rank to another one: the receiver compares it with what it
/// expects.
struct c10d_header {
  static constexpr int tag = 1;

  std::uint64_t sequence = 0;
  std::uint64_t plan = 0;
  std::int64_t round = 0;
  message_sizes sizes;

  [[nodiscard]] exchange_name name() const { return {sequence, {plan, static_cast<int>(round)}}; }
  /// How a received header differs from this one, which is expected; empty if it does not.
  [[nodiscard]] std::string difference(c10d_header const& there) const {
    auto const other_exchange = detail::difference(name(), there.name());
    return other_exchange.empty() ? sizes.difference(there.sizes) : other_exchange;
  }
};

/// The messages of one rank. Small messages between two ranks are sent together: in the same
/// message as the header if they fit, otherwise in a second one.
/// @cost no allocation if there has been a batch as large before
class c10d_batch {
 public:
  /// The size of a head: header and small messages. The same for all, so that ranks that disagree
  /// can still exchange heads.
  static constexpr std::size_t head_bytes = 1024;
  static constexpr std::size_t room_in_head = head_bytes - sizeof(c10d_header);
  /// Above this size, copying a message twice takes longer than sending it separately.
  static constexpr std::size_t most_small_bytes = std::size_t{32} << 10U;
  /// The limit of all small messages between two ranks.
  static constexpr std::size_t most_packed_bytes = std::size_t{1} << 20U;

  struct message {
    rank_id peer;
    std::byte* data;  // sends are only read
    std::size_t bytes;
    std::size_t index;  // among those between the two ranks
    bool is_packed;
  };
  /// The messages between this rank and another in one direction.
  struct stream {
    c10d_header header;
    std::size_t packed_bytes = 0;

    [[nodiscard]] bool is_empty() const { return header.sizes.messages == 0; }
    /// The bytes of the second message.
    [[nodiscard]] std::size_t bytes_behind() const {
      return packed_bytes > room_in_head ? packed_bytes : 0;
    }
    /// The bytes of the head and of the second message.
    [[nodiscard]] std::size_t staged_bytes() const {
      return is_empty() ? 0 : head_bytes + bytes_behind();
    }
  };

  c10d_batch(rank_id me, int size)
      : me_{me}, to_(static_cast<std::size_t>(size)), from_(to_.size()) {}

  /// @throws argument_error unless the peer is another rank
  void send(std::span<std::byte const> bytes, rank_id to) {
    add(out_, to_, const_cast<std::byte*>(bytes.data()), bytes.size(), to);
  }
  void recv(std::span<std::byte> bytes, rank_id from) {
    add(in_, from_, bytes.data(), bytes.size(), from);
  }
  void label(batch_label const& value) { name_.label = value; }

  void clear() {
    name_ = {};
    in_.clear();
    out_.clear();
    std::ranges::fill(to_, stream{});
    std::ranges::fill(from_, stream{});
  }
  /// To be called when all messages have been added.
  /// @param sequence the number of this exchange
  void close(std::uint64_t sequence) {
    name_.sequence = sequence;
    for (auto* const streams : {&to_, &from_})
      for (auto& of : *streams) {
        of.header.sequence = sequence;
        of.header.plan = name_.label.plan;
        of.header.round = name_.label.round;
      }
  }

  [[nodiscard]] exchange_name const& name() const { return name_; }
  [[nodiscard]] std::span<message const> in() const { return in_; }
  [[nodiscard]] std::span<message const> out() const { return out_; }
  [[nodiscard]] stream const& to(rank_id peer) const { return to_[peer.index()]; }
  [[nodiscard]] stream const& from(rank_id peer) const { return from_[peer.index()]; }
  /// The bytes of all heads and second messages, in both directions.
  [[nodiscard]] std::size_t staged_bytes() const {
    auto sum = std::size_t{0};
    for (auto const* const streams : {&to_, &from_})
      for (auto const& of : *streams) sum += of.staged_bytes();
    return sum;
  }

  /// Writes the head and the second message to a peer.
  /// @param staged of staged_bytes()
  void pack(rank_id peer, std::span<std::byte> staged) const {
    auto const& header = to(peer).header;
    std::memcpy(staged.data(), &header, sizeof header);
    for_each_packed(out_, peer, to(peer), staged, [](message const& of, std::byte* place) {
      std::memcpy(place, of.data, of.bytes);
    });
  }
  /// How the head from a peer differs from what is expected; empty if it does not.
  [[nodiscard]] std::string difference(rank_id peer, std::span<std::byte const> staged) const {
    auto there = c10d_header{};
    std::memcpy(&there, staged.data(), sizeof there);
    return from(peer).header.difference(there);
  }
  /// Copies small messages from the head and the second message to their destinations.
  void unpack(rank_id peer, std::span<std::byte> staged) const {
    for_each_packed(in_, peer, from(peer), staged, [](message const& of, std::byte const* place) {
      std::memcpy(of.data, place, of.bytes);
    });
  }

 private:
  void add(std::vector<message>& list, std::vector<stream>& streams, std::byte* data,
           std::size_t bytes, rank_id peer) {
    auto& of = streams[peer_index(me_, peer, static_cast<int>(streams.size()))];
    auto const packed = bytes <= most_small_bytes && bytes <= most_packed_bytes - of.packed_bytes;
    list.push_back({peer, data, bytes, of.header.sizes.messages, packed});
    of.header.sizes.add(bytes);
    if (packed) of.packed_bytes += bytes;
  }
  /// Calls visit(message, place) for the small messages between two ranks, except empty ones.
  template <class Visit>
  static void for_each_packed(std::vector<message> const& list, rank_id peer, stream const& of,
                              std::span<std::byte> staged, Visit visit) {
    auto* place = staged.data() + (of.bytes_behind() == 0 ? sizeof(c10d_header) : head_bytes);
    for (auto const& each : list) {
      if (each.peer != peer || !each.is_packed || each.bytes == 0) continue;
      visit(each, place);
      place += each.bytes;
    }
  }

  rank_id me_;
  exchange_name name_;
  std::vector<message> in_;
  std::vector<message> out_;
  std::vector<stream> to_;    // [ranks]
  std::vector<stream> from_;  // [ranks]
};

}  // namespace fssdp::detail
