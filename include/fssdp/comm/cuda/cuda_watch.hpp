// SPDX-License-Identifier: Apache-2.0
/// Tracks the exchanges on a stream, to report what a stalled stream waits for.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <string>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Marks the ends of exchanges on a stream by a few events; if none is free, the last one covers
/// all later exchanges.
class cuda_watch {
 public:
  /// @param peers  the number of peers of an exchange without an allocation
  explicit cuda_watch(rank_id me, int peers = 0) : me_{me} {
    for (auto& mark : marks_) {
      mark.own = make_cuda_event(me);
      mark.peers.reserve(static_cast<std::size_t>(peers));
    }
  }

  /// Later exchanges belong to this plan.
  void begin_plan(std::uint64_t plan) {
    plan_ = plan;
    round_ = 0;
  }
  /// Begins an exchange on a stream; its peers follow. Captured exchanges are not tracked.
  void begin_exchange(cudaStream_t stream) { begin_exchange(is_captured(stream, me_)); }
  void begin_exchange(bool captured) {
    is_captured_ = captured;
    has_captured_ = has_captured_ || is_captured_;
    if (!is_captured_ && 2 * count_ > marks_.size()) forget_older_half();
    if (count_ < marks_.size()) ++count_;
    auto& mark = last();
    mark.sequence = ++sequence_;
    mark.plan = plan_;
    mark.round = round_++;
    mark.is_enqueued = false;
    mark.peers.clear();
  }
  void add_peer(rank_id peer) { last().peers.push_back(peer); }
  /// Ends the exchange: it is on the stream, or in a graph, which is not tracked.
  void end_exchange(cudaStream_t stream) {
    if (is_captured_) {
      --count_;
      return;
    }
    cuda_require(cudaEventRecord(last().own.get(), stream), me_, "cudaEventRecord");
    end_exchange_by(last().own.get());
  }
  /// Ends the exchange with an event that others may use as well. When the event is recorded again,
  /// it marks the later exchange.
  void end_exchange_by(cudaEvent_t event) {
    last().event = event;
    last().is_enqueued = true;
  }

  /// Whether any exchange was captured into a graph, which may still exist.
  [[nodiscard]] bool has_captured() const { return has_captured_; }

  /// Removes exchanges that have finished. Returns whether there were any.
  bool advance() {
    auto moved = false;
    for (; count_ != 0 && first().is_enqueued; moved = true) {
      if (query(first().event) != cudaSuccess) break;
      begin_ = (begin_ + 1) % marks_.size();
      --count_;
    }
    return moved;
  }

  /// Waits for all work on the stream, and removes it.
  /// @param look() is called after each poll of the stream, also the last; it may throw
  /// @throws what look throws; deadline_exceeded without progress for that long; transport_error
  template <class Look>
  void wait_for(cudaStream_t stream, std::chrono::milliseconds deadline, Look look) {
    wait("synchronize", deadline, look, [&] { return is_over(query(stream), "cudaStreamQuery"); });
    count_ = 0;
  }
  /// Waits for an event on the stream. `call` is the caller, for errors.
  /// @param look, @throws as above
  template <class Look>
  void wait_for(cudaEvent_t event, char const* call, std::chrono::milliseconds deadline,
                Look look) {
    wait(call, deadline, look, [&] { return is_over(query(event), "cudaEventQuery"); });
  }
  /// The error for a stream without progress for that long.
  [[nodiscard]] deadline_exceeded late(char const* call, std::chrono::milliseconds deadline) const {
    return {failed_rank(),
            detail::text(call, ": nothing has moved within ", deadline.count(), " ms: ", text())};
  }

  /// The peer of the exchange in progress if there is only one, else -1.
  [[nodiscard]] rank_id failed_rank() const {
    if (count_ == 0 || first().peers.size() != 1) return rank_id{-1};
    return first().peers.front();
  }
  /// What the stream waits for, as far as it is known.
  [[nodiscard]] std::string text() const {
    if (count_ == 0) return detail::text("rank ", me_, " awaits its stream, not an exchange");
    auto ranks = std::string{};
    for (auto const peer : first().peers)
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer.value());
    return detail::text("rank ", me_, " awaits rank ", ranks.empty() ? "-" : ranks, " in exchange ",
                        first().sequence, ", round ", first().round, " of plan ",
                        hexadecimal{first().plan});
  }

 private:
  struct exchange_mark {
    cuda_event own;
    cudaEvent_t event = nullptr;  ///< its own, or shared by several ranks
    bool is_enqueued = false;
    std::uint64_t sequence = 0;
    std::uint64_t plan = 0;
    int round = 0;
    std::vector<rank_id> peers;
  };

  /// Removes the older half if it has finished. Queries are slower than records, so one query
  /// covers all exchanges before it, as a stream is in order.
  void forget_older_half() {
    auto const half = count_ / 2;
    auto const& newest = marks_[(begin_ + half - 1) % marks_.size()];
    if (!newest.is_enqueued || query(newest.event) != cudaSuccess) return;
    begin_ = (begin_ + half) % marks_.size();
    count_ -= half;
  }
  template <class Look, class IsOver>
  void wait(char const* call, std::chrono::milliseconds deadline, Look look, IsOver is_over) {
    using clock = std::chrono::steady_clock;
    auto pace = wait_pace{};
    auto until = end_of(deadline);
    for (;;) {
      auto const done = is_over();
      look();
      if (done) return;
      if (advance()) {
        until = end_of(deadline);
        pace.renew();
      }
      if (clock::now() > until) throw late(call, deadline);
      pace.rest();
    }
  }
  [[nodiscard]] bool is_over(cudaError_t code, char const* call) const {
    if (code == cudaErrorNotReady) return false;
    cuda_require(code, me_, call);
    return true;
  }
  [[nodiscard]] exchange_mark const& first() const { return marks_[begin_]; }
  [[nodiscard]] exchange_mark& last() { return marks_[(begin_ + count_ - 1) % marks_.size()]; }

  rank_id me_;
  std::array<exchange_mark, 32> marks_;  // a ring
  std::size_t begin_ = 0;
  std::size_t count_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t plan_ = 0;
  int round_ = 0;
  bool is_captured_ = false;  // whether the current exchange is captured
  bool has_captured_ = false;
};

/// Waits until all work on the stream has finished, at most this long. To be called after a
/// failure.
inline void drain(cudaStream_t stream, std::chrono::milliseconds most) noexcept {
  auto pace = wait_pace{};
  auto const until = end_of(most);
  while (query(stream) == cudaErrorNotReady && std::chrono::steady_clock::now() < until)
    pace.rest();
}

}  // namespace fssdp::detail
