// SPDX-License-Identifier: Apache-2.0
/// The messages of an exchange on one rank, and how they travel over a process group.
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

/// The tag of a message: made of what both ends must agree on, so that one never arrives in place of
/// another. Gloo takes a message that is shorter than expected for a whole one, and ends the process
/// at a longer one.
/// @param index which it is of the messages from the one rank to the other
/// @returns a number from 2 to most_tag: heads have 1, and what others send has 0
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

/// What goes ahead of the messages of a rank to another: the receiver compares it with what it wants.
struct c10d_header {
  static constexpr int tag = 1;

  std::uint64_t sequence = 0;
  std::uint64_t plan = 0;
  std::int64_t round = 0;
  message_sizes sizes;

  [[nodiscard]] exchange_name name() const { return {sequence, {plan, static_cast<int>(round)}}; }
  /// How a header that has come differs from this one, which is wanted; empty if not at all.
  [[nodiscard]] std::string difference(c10d_header const& there) const {
    auto const other_exchange = detail::difference(name(), there.name());
    return other_exchange.empty() ? sizes.difference(there.sizes) : other_exchange;
  }
};

/// What one rank sends and wants. Small messages between two ranks travel together: behind the
/// header in the same message if they fit there, else in a second one.
/// @cost no allocation once the largest batch has been seen
class c10d_batch {
 public:
  /// Header and small messages: the same for all, so that ranks which disagree can still say so.
  static constexpr std::size_t head_bytes = 1024;
  static constexpr std::size_t room_in_head = head_bytes - sizeof(c10d_header);
  /// As much costs as long to copy twice as to send by itself.
  static constexpr std::size_t most_small_bytes = std::size_t{32} << 10U;
  /// Of all small messages between two ranks.
  static constexpr std::size_t most_packed_bytes = std::size_t{1} << 20U;

  struct message {
    rank_id peer;
    std::byte* data;  // only read if it goes out
    std::size_t bytes;
    std::size_t index;  // of those between the two ranks
    bool is_packed;
  };
  /// The messages between this rank and another in one direction.
  struct stream {
    c10d_header header;
    std::size_t packed_bytes = 0;

    [[nodiscard]] bool is_empty() const { return header.sizes.messages == 0; }
    /// How many bytes go in a second message.
    [[nodiscard]] std::size_t bytes_behind() const {
      return packed_bytes > room_in_head ? packed_bytes : 0;
    }
    /// Bytes of the head and of what goes behind.
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
  /// All have been named.
  /// @param sequence how many exchanges there have been
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
  /// Bytes of all heads and of what goes behind them, both ways.
  [[nodiscard]] std::size_t staged_bytes() const {
    auto sum = std::size_t{0};
    for (auto const* const streams : {&to_, &from_})
      for (auto const& of : *streams) sum += of.staged_bytes();
    return sum;
  }

  /// Writes the head of what goes to a peer, and what goes behind.
  /// @param staged of staged_bytes()
  void pack(rank_id peer, std::span<std::byte> staged) const {
    auto const& header = to(peer).header;
    std::memcpy(staged.data(), &header, sizeof header);
    for_each_packed(out_, peer, to(peer), staged, [](message const& of, std::byte* place) {
      std::memcpy(place, of.data, of.bytes);
    });
  }
  /// How the head of what comes from a peer differs from what is wanted; empty if not at all.
  [[nodiscard]] std::string difference(rank_id peer, std::span<std::byte const> staged) const {
    auto there = c10d_header{};
    std::memcpy(&there, staged.data(), sizeof there);
    return from(peer).header.difference(there);
  }
  /// Brings what has come with the head and behind it to where it is wanted.
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
  /// Calls visit(message, place) for the small messages between two ranks that have any bytes.
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
  std::vector<stream> to_;    // [rank]
  std::vector<stream> from_;  // [rank]
};

}  // namespace fssdp::detail
