// SPDX-License-Identifier: Apache-2.0
/// The messages of a batch on one rank, and what is said about them in headers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/mpi_call.hpp"
#include "fssdp/comm/mpi_monitor.hpp"
#include "fssdp/comm/mpi_requests.hpp"
#include "fssdp/core/aligned_memory.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/scratch_memory.hpp"

namespace fssdp::detail {

/// What goes ahead of the messages of a rank to another: the receiver compares it with what it
/// wants. Of the sizes there are the first, and a hash of all.
struct mpi_header {
  std::uint64_t sequence = 0;
  std::uint64_t plan = 0;
  std::int64_t round = 0;
  std::uint64_t part_bytes = 0;  // larger messages are cut
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sizes_hash = 0;
  std::array<std::uint64_t, 9> sizes = {};

  void add(std::size_t size) {
    if (messages < sizes.size()) sizes[messages] = size;
    ++messages;
    bytes += size;
    sizes_hash = (sizes_hash ^ size) * 0x9e3779b97f4a7c15U;
    sizes_hash ^= sizes_hash >> 32U;
  }

  /// How a header that has come differs from this one, which is wanted; empty if not at all.
  [[nodiscard]] std::string difference(mpi_header const& there) const {
    if (there.sequence != sequence)
      return text("exchange ", sequence, " here, ", there.sequence, " there");
    if (there.plan != plan || there.round != round)
      return text("round ", round, " of plan ", std::hex, plan, " here, round ", std::dec,
                  there.round, " of plan ", std::hex, there.plan, " there");
    if (there.part_bytes != part_bytes)
      return text("messages are cut into ", part_bytes, " bytes here, ", there.part_bytes,
                  " there");
    if (there.messages != messages)
      return text(messages, " messages expected, ", there.messages, " sent");
    if (there.sizes_hash == sizes_hash) return {};
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (there.sizes[i] != sizes[i])
        return text("message ", i, " should have ", sizes[i], " bytes, it has ", there.sizes[i]);
    return text("all messages together should have ", bytes, " bytes, they have ", there.bytes,
                "; they differ behind the first ", sizes.size());
  }
};

/// What one rank sends and wants in an exchange.
///
/// @cost no allocation once the largest batch has been seen
class mpi_batch {
 public:
  struct message {
    rank_id peer;
    std::byte* data;  // only read if it goes out; null if it is borrowed, until it is laid out
    std::size_t bytes;
    std::size_t part = 0;  // its first
    std::size_t parts = 0;
    std::size_t missing = 0;  // parts that have not come yet
    bool held = false;
    bool delivered = false;
    bool borrowed = false;
  };
  struct peer {
    mpi_header sends, wants;  // as this rank sees it
    mpi_header comes;         // as the peer does
    int next_tag = 0;
    bool accepted = false;         // the header has come, and is as it should be
    std::size_t undelivered = 0;   // messages from it
    std::size_t unsent_parts = 0;  // parts to it that MPI has not done with
  };

  /// @param part_bytes [rank]: in what parts messages between it and this one go
  mpi_batch(rank_id me, std::vector<std::size_t> part_bytes, int most_tag)
      : me_{me},
        part_bytes_{std::move(part_bytes)},
        most_tag_{most_tag},
        peers_(part_bytes_.size()) {}

  void clear(std::uint64_t sequence) {
    for (auto& p : peers_) p = {};
    sequence_ = sequence;
    label_ = {};
    in_.clear();
    out_.clear();
    parts_.clear();
    held_ = 0;
    borrowed_bytes_ = 0;
  }

  /// @throws argument_error unless the peer is another rank
  void send(std::span<std::byte const> bytes, rank_id to, bool held) {
    checked(to).sends.add(bytes.size());
    out_.push_back(
        {.peer = to, .data = const_cast<std::byte*>(bytes.data()), .bytes = bytes.size()});
    out_.back().held = held;
    held_ += held ? 1 : 0;
  }
  void recv(std::span<std::byte> bytes, rank_id from) {
    checked(from).wants.add(bytes.size());
    in_.push_back({.peer = from, .data = bytes.data(), .bytes = bytes.size()});
  }
  void borrow(std::size_t bytes, rank_id from) {
    recv({static_cast<std::byte*>(nullptr), bytes}, from);
    in_.back().borrowed = true;
    borrowed_bytes_ += padded(bytes);
  }
  void label(batch_label const& value) { label_ = value; }

  /// All have been named: makes the parts, headers ahead of messages, what comes in ahead of what
  /// goes out.
  void lay_out() {
    auto* room = borrowed_bytes_ == 0 ? nullptr : borrowed_.reserve(borrowed_bytes_).data();
    for (auto& m : in_) {
      if (!m.borrowed) continue;
      m.data = room;
      room += padded(m.bytes);
    }
    add_headers(mpi_part_kind::header_in);
    add_messages(mpi_part_kind::message_in, in_);
    for (auto& p : peers_) p.next_tag = 0;
    add_headers(mpi_part_kind::header_out);
    add_messages(mpi_part_kind::message_out, out_);
  }

  [[nodiscard]] batch_label const& label() const { return label_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] std::span<mpi_part const> parts() const { return parts_; }
  [[nodiscard]] std::span<message> in() { return in_; }
  [[nodiscard]] std::span<message> out() { return out_; }
  [[nodiscard]] std::span<peer> peers() { return peers_; }
  [[nodiscard]] peer& of(rank_id rank) { return peers_[rank.index()]; }
  [[nodiscard]] std::size_t held() const { return held_; }
  void let_go(message& held) {
    held.held = false;
    --held_;
  }

  /// For whom the rank waits: the source of the first message that has not come, or who has not
  /// taken all that is sent; itself if for nobody.
  [[nodiscard]] rank_id awaited() const {
    for (auto const& m : in_)
      if (!m.delivered) return m.peer;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      if (peers_[rank].unsent_parts != 0) return rank_id{rank};
    return me_;
  }

 private:
  [[nodiscard]] peer& checked(rank_id rank) {
    auto const size = static_cast<int>(peers_.size());
    require(rank.value() >= 0 && rank.value() < size && rank != me_,
            "exchange: message between rank ", me_, " and rank ", rank,
            "; expected another rank from 0 to ", size - 1);
    return peers_[rank.index()];
  }
  void add_headers(mpi_part_kind kind) {
    auto const comes = kind == mpi_part_kind::header_in;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      auto& p = peers_[rank];
      auto& own = comes ? p.wants : p.sends;
      if (own.messages == 0) continue;
      own.sequence = sequence_;
      own.plan = label_.plan;
      own.round = label_.round;
      own.part_bytes = part_bytes_[rank];
      parts_.push_back({.kind = kind,
                        .bytes = static_cast<int>(sizeof(mpi_header)),
                        .tag = mpi_header_tag,
                        .peer = rank_id{rank},
                        .data = reinterpret_cast<std::byte*>(comes ? &p.comes : &p.sends),
                        .message = rank});
      if (!comes) ++p.unsent_parts;
    }
  }
  void add_messages(mpi_part_kind kind, std::vector<message>& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      auto& m = messages[i];
      auto& p = peers_[m.peer.index()];
      auto const part_bytes = part_bytes_[m.peer.index()];
      m.part = parts_.size();
      for (auto at = std::size_t{0}; at == 0 || at < m.bytes; at += part_bytes) {
        require(p.next_tag <= most_tag_ - mpi_first_tag, "exchange: more than ", p.next_tag,
                " messages between rank ", me_, " and rank ", m.peer, "; MPI has no more tags");
        parts_.push_back({.kind = kind,
                          .bytes = static_cast<int>(std::min(part_bytes, m.bytes - at)),
                          .tag = mpi_first_tag + p.next_tag++,
                          .peer = m.peer,
                          .data = m.data == nullptr ? nullptr : m.data + at,
                          .message = i});
      }
      m.parts = parts_.size() - m.part;
      m.missing = m.parts;
      if (kind == mpi_part_kind::message_in)
        ++p.undelivered;
      else
        p.unsent_parts += m.parts;
    }
  }

  rank_id me_;
  std::vector<std::size_t> part_bytes_;  // [rank]
  int most_tag_;
  std::uint64_t sequence_ = 0;
  batch_label label_;
  std::vector<peer> peers_;  // [rank]
  std::vector<message> in_;
  std::vector<message> out_;
  std::vector<mpi_part> parts_;
  std::size_t held_ = 0;
  std::size_t borrowed_bytes_ = 0;
  scratch_memory borrowed_;
};

}  // namespace fssdp::detail
