// SPDX-License-Identifier: Apache-2.0
/// One rank's part in an exchange between devices of one process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_watch.hpp"
#include "fssdp/comm/peer/peer_copies.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp::detail {

/// The messages of a rank, and the work that is enqueued for it when all its peers have come: by
/// its own thread, or by another one while its own waits.
class peer_part {
 public:
  using borrowed = std::span<std::span<std::byte const> const>;

  peer_part(rank_id rank, int ranks, cudaStream_t stream)
      : rank_{rank},
        stream_{stream},
        reads_(static_cast<std::size_t>(ranks)),
        is_read_by_(reads_.size()),
        watch_{rank, ranks} {}

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] cuda_watch& watch() { return watch_; }

  /// Begins the next exchange, without messages.
  void begin() {
    std::ranges::fill(reads_, 0);
    std::ranges::fill(is_read_by_, 0);
    sent_.clear();
    into_.clear();
    visit_.reset();
  }
  void sends(std::span<std::byte const> bytes, rank_id to) {
    is_read_by_[to.index()] = 1;
    sent_.push_back(bytes);
  }
  void borrows(rank_id from) { reads_[from.index()] = 1; }
  void receives(copy_way way, std::span<std::byte> bytes, rank_id from) {
    borrows(from);
    into_.push_back({way, bytes});
  }
  /// Sets the function that reads borrowed memory, instead of a copy.
  void visits(function_ref<void(borrowed)> visit) { visit_ = visit; }

  [[nodiscard]] bool is_copied() const { return !visit_.has_value(); }
  [[nodiscard]] bool reads_any() const { return std::ranges::count(reads_, 1) != 0; }
  [[nodiscard]] bool is_read() const { return std::ranges::count(is_read_by_, 1) != 0; }
  [[nodiscard]] bool meets(rank_id peer) const {
    return reads_[peer.index()] != 0 || is_read_by_[peer.index()] != 0;
  }
  /// Calls visit(peer) for the peers whose memory it reads, and for those that read its memory.
  template <class Visit>
  void for_each_sender(Visit visit) const {
    for_each(reads_, visit);
  }
  template <class Visit>
  void for_each_reader(Visit visit) const {
    for_each(is_read_by_, visit);
  }

  /// Delays a copy within this rank's memory until the copies of the next exchange.
  void put_off(std::span<std::byte> to, std::span<std::byte const> from) {
    put_off_.push_back({to, from});
  }
  [[nodiscard]] bool has_put_off() const { return !put_off_.empty(); }
  /// Whether a copy must be made after the delayed ones: it accesses what they write, or writes
  /// what they read, and one launch has no order; or they fill one launch.
  [[nodiscard]] bool has_to_follow(std::span<std::byte> to, std::span<std::byte const> from) const {
    return put_off_.size() >= device_copies::most ||
           std::ranges::any_of(put_off_, [&](own_copy const& before) {
             return overlap(to, before.to) || overlap(to, before.from) || overlap(from, before.to);
           });
  }
  /// Whether a delayed copy writes sent memory, or accesses received memory.
  [[nodiscard]] bool has_to_copy_first() const {
    for (auto const& [to, from] : put_off_) {
      for (auto const& bytes : sent_)
        if (overlap(to, bytes)) return true;
      for (auto const& message : into_)
        if (overlap(to, message.bytes) || overlap(from, message.bytes)) return true;
    }
    return false;
  }
  /// Returns the delayed copies, and clears them. The list is valid until the next call.
  [[nodiscard]] peer_copies& take_put_off() {
    copies_.clear();
    for (auto const& [to, from] : put_off_) copies_.add(copy_way::within_device, to, from);
    forget_put_off();
    return copies_;
  }
  void forget_put_off() { put_off_.clear(); }

  /// To be called when all peers have come, with the borrowed memory.
  /// @throws as cuda_watch::begin_exchange
  void prepare(borrowed lent) {
    watch_.begin_exchange(false);
    for (std::size_t peer = 0; peer < reads_.size(); ++peer)
      if (meets(rank_id{peer})) watch_.add_peer(rank_id{peer});
    lent_ = lent;
    (void)take_put_off();
    if (is_copied())
      for (std::size_t i = 0; i < lent.size(); ++i)
        copies_.add(into_[i].way, into_[i].bytes, lent[i]);
  }
  /// The delayed copies, and the received messages.
  [[nodiscard]] peer_copies& copies() { return copies_; }
  /// @param puts_off whether sums may wait for those of other ranks, if nothing follows them
  /// @throws what the visit throws
  void visit(bool puts_off) {
    puts_off_sums_ = puts_off;
    sums_.reset();
    (*visit_)(lent_);
    puts_off_sums_ = false;
  }
  /// Delays sums of a visit. As later work may need them, only one list can be delayed.
  /// @return whether they are delayed
  [[nodiscard]] bool put_off(device_sums const& sums) {
    if (!puts_off_sums_ || sums_.has_value()) return false;
    sums_ = sums;
    return true;
  }
  [[nodiscard]] bool has_put_off_sums() const { return sums_.has_value(); }
  /// Returns the delayed sums; from now on none are delayed in this visit.
  [[nodiscard]] device_sums take_put_off_sums() {
    puts_off_sums_ = false;
    return *std::exchange(sums_, std::nullopt);
  }

  void record(cudaEvent_t event) const {
    cuda_require(cudaEventRecord(event, stream_), rank_, "cudaEventRecord");
  }
  void await(cudaEvent_t event) const {
    cuda_require(cudaStreamWaitEvent(stream_, event, 0), rank_, "cudaStreamWaitEvent");
  }

 private:
  /// A message to receive, and its destination.
  struct incoming {
    copy_way way;
    std::span<std::byte> bytes;
  };
  struct own_copy {
    std::span<std::byte> to;
    std::span<std::byte const> from;
  };

  static bool overlap(std::span<std::byte const> a, std::span<std::byte const> b) {
    auto const before = std::less<>{};
    return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
  }
  template <class Visit>
  static void for_each(std::vector<std::uint8_t> const& of, Visit visit) {
    for (std::size_t peer = 0; peer < of.size(); ++peer)
      if (of[peer] != 0) visit(rank_id{peer});
  }

  rank_id rank_;
  cudaStream_t stream_;
  std::vector<std::uint8_t> reads_;       // [ranks]: whether this rank reads its memory
  std::vector<std::uint8_t> is_read_by_;  // [ranks]: whether it reads this rank's memory
  std::vector<std::span<std::byte const>> sent_;
  std::vector<incoming> into_;
  std::optional<function_ref<void(borrowed)>> visit_;
  std::vector<own_copy> put_off_;
  bool puts_off_sums_ = false;
  std::optional<device_sums> sums_;
  borrowed lent_;
  peer_copies copies_;
  cuda_watch watch_;
};

}  // namespace fssdp::detail
