// SPDX-License-Identifier: Apache-2.0
/// What back ends have in common: what they check, what they say, and how they stay failed.
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

/// A tag for a message, where a back end matches messages by tags or slots and does not compare
/// their sizes: a hash of what both ends must agree on, equal on all machines. Ranks that are in
/// different collectives, or expect another size, then never get each other's bytes; they wait in
/// vain, until the deadline. Messages between two ranks whose tags are equal are still to be matched
/// in order.
/// @param of    the label of the batch that the message is in; empty if it has none
/// @param bytes the size of the message
/// @param most  the largest tag that the back end takes. One in most + 1 disagreements is not
///              noticed: the more there are, the better
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

/// The index of a rank that messages go to or come from.
/// @throws argument_error unless it is another rank of `size`
[[nodiscard]] inline std::size_t peer_index(rank_id me, rank_id peer, int size) {
  require(peer.value() >= 0 && peer.value() < size && peer != me, "exchange: message between rank ",
          me, " and rank ", peer, "; expected another rank from 0 to ", size - 1);
  return peer.index();
}

/// @throws argument_error if the deadline is not positive
inline void check_deadline(char const* who, std::chrono::milliseconds deadline) {
  require(deadline.count() > 0, who, ": a deadline of ", deadline.count(),
          " ms; expected more than 0");
}

/// What is thrown where a call that all ranks take part in does not end in time. It names no rank.
[[nodiscard]] inline deadline_exceeded not_all_come(rank_id me, char const* call,
                                                    std::chrono::milliseconds deadline) {
  return {rank_id{-1}, text("rank ", me, " waits for all ranks in ", call, ": not all come within ",
                            deadline.count(), " ms")};
}

/// What is thrown where two ranks are not in the same collective.
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

/// An exchange as two ranks compare it: how many there have been, and which collective it is of.
struct exchange_name {
  std::uint64_t sequence = 0;
  batch_label label;
};
/// How two ranks' exchanges differ; empty if they do not.
[[nodiscard]] inline std::string difference(exchange_name const& here, exchange_name const& there) {
  if (here.sequence != there.sequence)
    return text("exchange ", here.sequence, " here, ", there.sequence,
                " there; expected that both call the same collectives in the same order");
  if (here.label != there.label)
    return text("round ", here.label.round, " of plan ", hexadecimal{here.label.plan},
                " here, round ", there.label.round, " of plan ", hexadecimal{there.label.plan},
                " there; expected equal plans: of equal layouts, loads, solvers and topologies");
  return {};
}
/// How many messages are expected from a peer, and how many it sends.
[[nodiscard]] inline std::string count_difference(std::size_t expected, std::size_t sent) {
  return text(expected, " messages expected, ", sent, " sent");
}
[[nodiscard]] inline std::string size_difference(std::size_t message, std::size_t expected,
                                                 std::size_t bytes) {
  return text("message ", message, " should have ", expected, " bytes, it has ", bytes);
}

/// What a communicator has failed by, if it has: from then on it takes no calls.
class failure_state {
 public:
  [[nodiscard]] bool has_failed() const { return failure_ != nullptr; }
  /// @throws poisoned_stream if something has failed
  void check(rank_id me) const {
    if (has_failed())
      throw poisoned_stream{
          text("rank ", me, ": earlier work on this communicator has failed: ", what(failure_))};
  }
  /// @throws what has failed, if something has
  void rethrow() const {
    if (has_failed()) std::rethrow_exception(failure_);
  }
  void set(std::exception_ptr failure) noexcept { failure_ = std::move(failure); }

 private:
  std::exception_ptr failure_;
};

/// One run of a world, of which there is one at a time.
class only_run {
 public:
  /// @throws argument_error if there is another
  only_run(char const* world, std::atomic<bool>& is_running) : is_running_{is_running} {
    require(!is_running.exchange(true), world,
            ": run is called while the world runs, by one of its ranks or in another thread; "
            "expected one run at a time: make another world");
  }
  only_run(only_run const&) = delete;
  only_run& operator=(only_run const&) = delete;
  ~only_run() { is_running_ = false; }

 private:
  std::atomic<bool>& is_running_;
};

}  // namespace fssdp::detail
