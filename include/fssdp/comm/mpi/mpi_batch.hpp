// SPDX-License-Identifier: Apache-2.0
/// The messages of a batch on one rank, and their description in headers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/message_sizes.hpp"
#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_header.hpp"
#include "fssdp/comm/mpi/mpi_lending.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/mpi/mpi_requests.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/scratch_memory.hpp"

namespace fssdp::detail {

/// How the receiver gets a message; where to read it if it reads it in place.
struct mpi_place {
  enum class kind : std::uint64_t {
    sent,      ///< by MPI
    readable,  ///< in place, at `offset` of the sender's memory
    held,      ///< in place, when an empty message announces it
  };
  kind what = kind::sent;
  std::uint64_t offset = 0;
};

/// The messages of one rank in an exchange.
///
/// @cost no allocation if there has been a batch as large before
class mpi_batch {
 public:
  struct message {
    rank_id peer;
    std::byte* data;  // sends are only read; null for a borrow until its memory is assigned
    std::size_t bytes;
    std::size_t part = 0;  // the first one
    std::size_t parts = 0;
    std::size_t missing = 0;  // parts that have not arrived
    bool held = false;
    bool delivered = false;
    bool borrowed = false;
    std::byte const* lent = nullptr;  // the sender's memory, if the receiver reads it in place

    /// The received bytes.
    [[nodiscard]] std::span<std::byte const> content() const {
      return {borrowed && lent != nullptr ? lent : data, bytes};
    }
  };
  struct peer {
    mpi_header sends, wants;  // of this rank
    mpi_header comes;         // received from the peer
    bool holds = false;       // some of the messages to it are deferred
    int next_tag = 0;
    bool accepted = false;         // the header has arrived, and is as expected
    std::size_t undelivered = 0;   // messages from it
    std::size_t unsent_parts = 0;  // parts that it has not received, and memory that it still reads
    std::size_t places_in = 0;     // the index of that part, if this rank can read its memory
    std::size_t done_out = 0;      // as above
    std::size_t first_in = 0;      // its first place among all received ones
    std::size_t first_out = 0;     // among all sent ones
    std::size_t next_place = 0;    // of these
  };

  /// @param part_bytes [ranks]: the size of the parts of messages between each rank and this one
  /// @param ranks the ranks of the world that the peers are
  /// @param lending between ranks of the world; outlives it
  mpi_batch(rank_id me, group_ranks ranks, std::vector<std::size_t> part_bytes, int most_tag,
            mpi_lending const& lending)
      : me_{me},
        ranks_{std::move(ranks)},
        part_bytes_{std::move(part_bytes)},
        most_tag_{most_tag},
        lending_{&lending},
        peers_(part_bytes_.size()),
        packets_in_(part_bytes_.size()),
        packets_out_(part_bytes_.size()) {}

  void clear(std::uint64_t sequence) {
    for (auto& p : peers_) p = {};
    sequence_ = sequence;
    label_ = {};
    in_.clear();
    out_.clear();
    parts_.clear();
    held_ = 0;
    bytes_in_ = 0;
    borrowed_bytes_ = 0;
  }

  /// @throws argument_error unless the peer is another rank
  void send(std::span<std::byte const> bytes, rank_id to, bool held) {
    checked(to).sends.sizes.add(bytes.size());
    out_.push_back(
        {.peer = to, .data = const_cast<std::byte*>(bytes.data()), .bytes = bytes.size()});
    out_.back().held = held;
    held_ += held ? 1 : 0;
    if (held) peers_[to.index()].holds = true;
  }
  void recv(std::span<std::byte> bytes, rank_id from) {
    checked(from).wants.sizes.add(bytes.size());
    in_.push_back({.peer = from, .data = bytes.data(), .bytes = bytes.size()});
    bytes_in_ += bytes.size();
  }
  void borrow(std::size_t bytes, rank_id from) {
    recv({static_cast<std::byte*>(nullptr), bytes}, from);
    in_.back().borrowed = true;
    borrowed_bytes_ += padded(bytes);
  }
  void label(batch_label const& value) { label_ = value; }

  /// To be called when all messages are added: makes the parts, headers before messages, receives
  /// before sends.
  void lay_out() {
    auto* room = borrowed_bytes_ == 0 ? nullptr : borrowed_.reserve(borrowed_bytes_).data();
    for (auto& m : in_) {
      if (!m.borrowed) continue;
      m.data = room;
      room += padded(m.bytes);
    }
    lend();
    choose_packed();
    add_headers(mpi_part_kind::header_in);
    add_places_in();
    add_messages(mpi_part_kind::message_in, in_);
    for (auto& p : peers_) p.next_tag = 0;
    add_headers(mpi_part_kind::header_out);
    add_places_out();
    add_messages(mpi_part_kind::message_out, out_);
  }

  /// To be called when a peer's header has arrived.
  peer& take_header(rank_id from) {
    auto& p = peers_[from.index()];
    p.comes = packets_in_[from.index()].header();
    return p;
  }
  /// To be called for each message of a peer, in order. Returns whether it has followed the header.
  bool take_packed(message& m) {
    if (peers_[m.peer.index()].comes.packed == 0) return false;
    packets_in_[m.peer.index()].take({m.data, m.bytes});
    m.missing = 0;
    return true;
  }
  /// To be called when a peer has described its messages: finds those that are read in place.
  /// @throws transport_error if they are not in the peer's memory
  void take_places(rank_id from) {
    auto const* place = places_in_.data() + peers_[from.index()].first_in;
    for (auto& m : in_) {
      if (m.peer != from) continue;
      auto const [what, offset] = *place++;
      if (what == mpi_place::kind::sent) continue;
      m.lent = lending_->at(ranks_.world_rank(from), offset, m.bytes);
      m.missing = what == mpi_place::kind::held ? 1 : 0;
      m.parts = m.missing;
    }
  }

  [[nodiscard]] batch_label const& label() const { return label_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] std::span<mpi_part const> parts() const { return parts_; }
  [[nodiscard]] std::span<message> in() { return in_; }
  [[nodiscard]] std::span<message> out() { return out_; }
  [[nodiscard]] std::span<peer> peers() { return peers_; }
  [[nodiscard]] peer& of(rank_id rank) { return peers_[rank.index()]; }
  [[nodiscard]] std::size_t held() const { return held_; }
  /// The bytes of all received messages.
  [[nodiscard]] std::size_t bytes_in() const { return bytes_in_; }
  void let_go(message& held) {
    held.held = false;
    --held_;
  }

  /// The peer that the rank waits for: the source of the first message that has not arrived, or one
  /// that has not received all; the rank itself if there is none.
  [[nodiscard]] rank_id awaited() const {
    for (auto const& m : in_)
      if (!m.delivered) return m.peer;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      if (peers_[rank].unsent_parts != 0) return rank_id{rank};
    return me_;
  }

 private:
  [[nodiscard]] peer& checked(rank_id rank) {
    return peers_[peer_index(me_, rank, static_cast<int>(peers_.size()))];
  }
  /// Finds the messages that are not sent because their receivers read them in place.
  void lend() {
    auto in = std::size_t{0};
    auto out = std::size_t{0};
    for (auto& p : peers_) {
      p.first_in = std::exchange(in, in + p.wants.sizes.messages);
      p.first_out = std::exchange(out, out + p.sends.sizes.messages);
    }
    places_in_.assign(in, {});
    places_out_.assign(out, {});
    for (auto& p : peers_) p.next_place = p.first_out;
    for (auto& m : out_) {
      auto& p = peers_[m.peer.index()];
      auto& place = places_out_[p.next_place++];
      auto const offset = lending_->place({m.data, m.bytes}, ranks_.world_rank(m.peer));
      if (!offset.has_value()) continue;
      place = {m.held ? mpi_place::kind::held : mpi_place::kind::readable, *offset};
      m.lent = m.data;
      ++p.sends.lent;
    }
  }
  /// Finds the peers whose messages follow the header: short ones that are not deferred.
  void choose_packed() {
    for (auto& p : peers_)
      if (p.sends.sizes.messages != 0 && p.sends.lent == 0 && !p.holds &&
          p.sends.sizes.bytes <= mpi_packet::most_packed)
        p.sends.packed = 1;
  }
  void add_headers(mpi_part_kind kind) {
    auto const comes = kind == mpi_part_kind::header_in;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      auto& p = peers_[rank];
      auto& own = comes ? p.wants : p.sends;
      if (own.sizes.messages == 0) continue;
      own.sequence = sequence_;
      own.plan = label_.plan;
      own.round = label_.round;
      own.part_bytes = part_bytes_[rank];
      auto& packet = (comes ? packets_in_ : packets_out_)[rank];
      if (!comes) packet.write(own);
      auto const follow = own.packed != 0 ? own.sizes.bytes : 0;
      add_part(kind, rank_id{rank}, tag_of(kind), packet.data(),
               comes ? mpi_packet::bytes : sizeof(own) + follow);
    }
  }
  /// For all messages from ranks whose memory this rank can read.
  void add_places_in() {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      auto& p = peers_[rank];
      if (p.wants.sizes.messages == 0 || !lending_->reads(ranks_.world_rank(rank_id{rank})))
        continue;
      p.places_in = parts_.size();
      add(mpi_part_kind::places_in, rank_id{rank}, places_in_[p.first_in], p.wants.sizes.messages);
      p.done_out = parts_.size();
      add(mpi_part_kind::done_out, rank_id{rank});
    }
  }
  /// For all messages to ranks that read some of them in place.
  void add_places_out() {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      auto& p = peers_[rank];
      if (p.sends.lent == 0) continue;
      add(mpi_part_kind::places_out, rank_id{rank}, places_out_[p.first_out],
          p.sends.sizes.messages);
      add(mpi_part_kind::done_in, rank_id{rank});
    }
  }
  void add_messages(mpi_part_kind kind, std::vector<message>& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      auto& m = messages[i];
      auto& p = peers_[m.peer.index()];
      if (kind == mpi_part_kind::message_out && p.sends.packed != 0) {
        packets_out_[m.peer.index()].add({m.data, m.bytes});
        continue;
      }
      auto const part_bytes = part_bytes_[m.peer.index()];
      auto const tags =
          static_cast<int>(m.bytes <= part_bytes ? 1 : (m.bytes - 1) / part_bytes + 1);
      require(p.next_tag <= most_tag_ - mpi_first_tag - tags + 1, "exchange: more than ",
              p.next_tag, " messages between rank ", me_, " and rank ", m.peer,
              "; MPI has no more tags");
      auto const tag = mpi_first_tag + std::exchange(p.next_tag, p.next_tag + tags);
      m.part = parts_.size();
      if (m.lent == nullptr)
        for (int n = 0; n < tags; ++n) {
          auto const at = static_cast<std::size_t>(n) * part_bytes;
          add_part(kind, m.peer, tag + n, m.data == nullptr ? nullptr : m.data + at,
                   std::min(part_bytes, m.bytes - at), i);
        }
      else if (m.held)
        add_part(kind, m.peer, tag, m.data, 0, i);
      m.parts = parts_.size() - m.part;
      m.missing = m.parts;
      if (kind == mpi_part_kind::message_in) ++p.undelivered;
    }
  }

  /// Adds a part that describes messages.
  template <class What>
  void add(mpi_part_kind kind, rank_id with, What& what, std::size_t count = 1) {
    add_part(kind, with, tag_of(kind), reinterpret_cast<std::byte*>(&what), count * sizeof(What));
  }
  void add(mpi_part_kind kind, rank_id with) { add_part(kind, with, tag_of(kind), nullptr, 0); }
  void add_part(mpi_part_kind kind, rank_id with, int tag, std::byte* data, std::size_t bytes,
                std::size_t number = 0) {
    parts_.push_back({.kind = kind,
                      .bytes = static_cast<int>(bytes),
                      .tag = tag,
                      .peer = with,
                      .data = data,
                      .message = number});
    if (parts_.back().ends_use()) ++peers_[with.index()].unsent_parts;
  }
  [[nodiscard]] static int tag_of(mpi_part_kind kind) {
    switch (kind) {
      case mpi_part_kind::places_in:
      case mpi_part_kind::places_out:
        return mpi_places_tag;
      case mpi_part_kind::done_in:
      case mpi_part_kind::done_out:
        return mpi_done_tag;
      default:
        return mpi_header_tag;
    }
  }

  rank_id me_;
  group_ranks ranks_;
  std::vector<std::size_t> part_bytes_;  // [ranks]
  int most_tag_;
  mpi_lending const* lending_;
  std::uint64_t sequence_ = 0;
  batch_label label_;
  std::vector<peer> peers_;              // [ranks]
  std::vector<mpi_packet> packets_in_;   // [ranks]: headers, and what follows them
  std::vector<mpi_packet> packets_out_;  // as above
  std::vector<message> in_;
  std::vector<message> out_;
  std::vector<mpi_place> places_in_;   // [messages], by peer
  std::vector<mpi_place> places_out_;  // as above
  std::vector<mpi_part> parts_;
  std::size_t held_ = 0;
  std::size_t bytes_in_ = 0;
  std::size_t borrowed_bytes_ = 0;
  scratch_memory borrowed_;
};

}  // namespace fssdp::detail
