// SPDX-License-Identifier: Apache-2.0
/// Shared by back ends: checks, texts of errors, and the state after a failure.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <ios>
#include <limits>
#include <string>
#include <utility>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// A message tag for back ends that match messages by tags or slots and do not compare sizes: a
/// hash of what both ends must agree on, equal on all hosts. Ranks in different collectives, or
/// with different sizes, then never receive each other's bytes; they wait until the deadline.
/// Messages between two ranks with equal tags must still be matched in order.
/// @param of    the label of the message's batch; empty if it has none
/// @param bytes the size of the message
/// @param most  the largest tag that the back end accepts. One in most + 1 disagreements is not
///              detected, so it should be large
/// @return 0 to most
[[nodiscard]] inline std::uint64_t message_tag(
    batch_label const& of, std::size_t bytes,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  auto hash = detail::hasher{};
  hash.mix(of.plan);
  hash.mix(of.round);
  hash.mix(bytes);
  auto const whole = most == std::numeric_limits<std::uint64_t>::max();
  return whole ? hash.value() : hash.value() % (most + 1);
}

}  // namespace fssdp

namespace fssdp::detail {

/// The index of a rank to send to or receive from.
/// @throws argument_error unless it is another rank of `size`
[[nodiscard]] inline std::size_t peer_index(rank_id me, rank_id peer, int size) {
  require(peer.value() >= 0 && peer.value() < size && peer != me, "exchange: message between rank ",
          me, " and rank ", peer, "; expected another rank from 0 to ", size - 1);
  return peer.index();
}

/// @throws argument_error if the deadline is not positive
inline void check_deadline(char const* who, std::chrono::milliseconds deadline) {
  require(deadline.count() > 0, who, ": deadline is ", deadline.count(),
          " ms; expected more than 0");
}

/// The error for a call of all ranks that does not end in time. It names no rank.
[[nodiscard]] inline deadline_exceeded not_all_come(rank_id me, char const* call,
                                                    std::chrono::milliseconds deadline) {
  return {rank_id{-1}, text("rank ", me, " waits for all ranks in ", call, ": not all come within ",
                            deadline.count(), " ms")};
}

/// The error for two ranks that are not in the same collective.
template <class... Parts>
[[nodiscard]] ranks_disagree disagreement(rank_id me, rank_id peer, Parts const&... parts) {
  return {peer, text("rank ", me, " and rank ", peer, " disagree: ", parts...)};
}

/// The same between two ranks of a group.
[[nodiscard]] inline ranks_disagree disagreement(group_ranks const& ranks, rank_id me, rank_id peer,
                                                 std::string const& complaint) {
  return {ranks.world_rank(peer),
          text(ranks.name(me), " and ", ranks.name(peer), " disagree: ", complaint)};
}

/// What two ranks compare of an exchange: its number, and its collective.
struct exchange_name {
  std::uint64_t sequence = 0;
  batch_label label;
};
/// How the exchanges of two ranks differ; empty if they do not.
[[nodiscard]] inline std::string difference(exchange_name const& here, exchange_name const& there) {
  if (here.sequence != there.sequence)
    return text("exchange ", here.sequence, " here, ", there.sequence,
                " there; expected that both call the same collectives in the same order");
  if (here.label != there.label)
    return text("round ", here.label.round, " of plan ", hexadecimal{here.label.plan},
                " here, round ", there.label.round, " of plan ", hexadecimal{there.label.plan},
                " there; expected the same call on all ranks, with equal plans: of equal layouts, "
                "loads, solvers and topologies");
  return {};
}
/// The text for a rank that has not come in time.
[[nodiscard]] inline std::string no_sign(rank_id missing, std::chrono::milliseconds deadline,
                                         std::string const& awaits) {
  return text("no sign of rank ", missing, " within ", deadline.count(), " ms: ", awaits,
              "; expected the same call on all ranks, with equal plans");
}
/// The text for a rank whose communicator has failed by another rank, or by itself: then others have
/// waited for it in vain.
[[nodiscard]] inline std::string given_up_or_failed(std::string const& me, rank_id rank,
                                                    rank_id failed, std::string const& what) {
  if (failed == rank) return text(me, ": the other ranks no longer wait for this one: ", what);
  return text(me, ": rank ", failed, " has failed: ", what);
}
/// The text for a number of messages other than expected.
[[nodiscard]] inline std::string count_difference(std::size_t expected, std::size_t sent) {
  return text(expected, " messages expected, ", sent, " sent");
}
[[nodiscard]] inline std::string size_difference(std::size_t message, std::size_t expected,
                                                 std::size_t bytes) {
  return text("message ", message, " should have ", expected, " bytes, it has ", bytes);
}

/// The error by which a communicator has failed, if any; it then accepts no more calls.
class failure_state {
 public:
  [[nodiscard]] bool has_failed() const { return failure_ != nullptr; }
  /// @throws poisoned_stream if an earlier call has failed
  void check(rank_id me) const {
    if (has_failed())
      throw poisoned_stream{
          text("rank ", me, ": earlier work on this communicator has failed: ", what(failure_))};
  }
  /// @throws that error, if there is one
  void rethrow() const {
    if (has_failed()) std::rethrow_exception(failure_);
  }
  void set(std::exception_ptr failure) noexcept { failure_ = std::move(failure); }

 private:
  std::exception_ptr failure_;
};

/// One run of a world. There can be only one at a time.
class only_run {
 public:
  /// @throws argument_error if there is another
  only_run(char const* world, std::atomic<bool>& is_running) : is_running_{is_running} {
    require(!is_running.exchange(true), world,
            ": run is called during another run of this world, by one of its ranks or in another "
            "thread; expected one run at a time: make another world");
  }
  only_run(only_run const&) = delete;
  only_run& operator=(only_run const&) = delete;
  ~only_run() { is_running_ = false; }

 private:
  std::atomic<bool>& is_running_;
};

}  // namespace fssdp::detail
