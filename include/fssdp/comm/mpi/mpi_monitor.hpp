// SPDX-License-Identifier: Apache-2.0
/// How processes monitor one another: notices of failures and of ranks that leave.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_lending.hpp"
#include "fssdp/comm/mpi/mpi_loss.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

inline constexpr int mpi_header_tag = 0;
inline constexpr int mpi_notice_tag = 1;
inline constexpr int mpi_places_tag = 2;
inline constexpr int mpi_done_tag = 3;
inline constexpr int mpi_first_tag = 4;  // of exchanges

/// A notice from one rank to another, besides exchanges.
struct mpi_notice {
  enum class kind : std::int32_t {
    failed,  ///< `rank` has failed; all communicators are closed
    left,    ///< the sender takes part in no more calls; `rank` has failed, or -1
    asks,    ///< the receiver shall say which rank it waits for in communicator `context`
    awaits,  ///< the answer: `rank`, or -1 for none
  };
  kind what = kind::failed;
  std::int32_t rank = -1;
  std::int32_t context = 0;
  std::int32_t threw = 0;      ///< of a rank that leaves: whether by an exception
  std::uint64_t sent = 0;      ///< of a rank that leaves: batches sent to the receiver of this
  std::uint64_t received = 0;  ///< of a rank that leaves: batches received from it
  std::array<char, 480> text = {};

  void say(std::string const& words) { text[words.copy(text.data(), text.size() - 1)] = '\0'; }
};

/// Releases a lock during its lifetime.
class mpi_unlocked {
 public:
  explicit mpi_unlocked(std::unique_lock<std::mutex>& lock) : lock_{lock} { lock_.unlock(); }
  mpi_unlocked(mpi_unlocked const&) = delete;
  mpi_unlocked& operator=(mpi_unlocked const&) = delete;
  ~mpi_unlocked() { lock_.lock(); }

 private:
  std::unique_lock<std::mutex>& lock_;
};

/// The state that all communicators of a world share: the lock around MPI calls, the deadline,
/// which ranks have left, which rank waits for which, and the first failure. Ranks are those of the
/// world. All functions require the lock, unless they say otherwise.
class mpi_monitor {
 public:
  using lock_type = std::unique_lock<std::mutex>;
  using clock = std::chrono::steady_clock;
  /// How long a rank that has failed and notified others keeps its memory for peers that read it.
  static constexpr auto memory_stays = std::chrono::milliseconds{200};
  struct failure {
    rank_id rank;
    std::string what;
    std::exception_ptr thrown;  // if this rank has failed
  };

  /// Collective.
  /// @throws deadline_exceeded (with rank -1) if not all ranks come
  mpi_monitor(mpi_handle first, mpi_options const& options)
      : options_{options}, first_{std::move(first)} {
    auto rank = 0;
    MPI_Comm_rank(first_.comm(), &rank);
    MPI_Comm_size(first_.comm(), &size_);
    rank_ = rank_id{rank};
    peers_.resize(static_cast<std::size_t>(size_));
    waits_.reserve(8);
    MPI_Query_thread(&thread_level_);
    auto* most = static_cast<int*>(nullptr);
    auto known = 0;
    MPI_Comm_get_attr(first_.comm(), MPI_TAG_UB, static_cast<void*>(&most), &known);
    most_tag_ = known != 0 ? *most : 32767;  // guaranteed by the standard
    try {
      mpi_meet(first_.comm(), options.deadline, "mpi_ref");
    } catch (...) {
      first_.abandon();
      throw;
    }
    auto here = MPI_Comm{};
    mpi_require(MPI_Comm_split_type(first_.comm(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
                rank_, "MPI_Comm_split_type");
    auto const neighbors = ranks_of(here);
    lending_ = {here, neighbors, size_, options.shared};
    MPI_Comm_free(&here);
    auto const most_bytes = options.most_message_bytes;
    part_bytes_.assign(peers_.size(), std::min(most_bytes, options.most_bytes_between_nodes));
    for (auto const peer : neighbors) {
      part_bytes_[peer.index()] = most_bytes;
      peers_[peer.index()].is_near = true;
    }
  }
  mpi_monitor(mpi_monitor const&) = delete;
  mpi_monitor& operator=(mpi_monitor const&) = delete;
  ~mpi_monitor() {
    if (!mpi_is_running()) return;
    clear_told();
    if (failed_.has_value()) first_.abandon();
    if (!told_.empty()) new auto{std::move(told_)};  // MPI may still access them: they are leaked
  }

  [[nodiscard]] lock_type lock() { return lock_type{mutex_}; }
  [[nodiscard]] MPI_Comm first() const { return first_.comm(); }
  [[nodiscard]] mpi_options const& options() const { return options_; }
  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int most_tag() const { return most_tag_; }
  /// The size of the parts of messages between a rank and this one.
  [[nodiscard]] std::size_t part_bytes(rank_id peer) const { return part_bytes_[peer.index()]; }
  /// Which ranks read one another's memory; without the lock.
  [[nodiscard]] mpi_lending const& lending() const { return lending_; }
  /// The ranks of the world that are in another communicator: [ranks of it].
  [[nodiscard]] std::vector<rank_id> ranks_of(MPI_Comm other) const {
    auto there = MPI_Group{};
    auto all = MPI_Group{};
    auto count = 0;
    MPI_Comm_group(other, &there);
    MPI_Comm_group(first_.comm(), &all);
    MPI_Group_size(there, &count);
    auto numbers = std::vector<int>(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    auto ranks = numbers;
    MPI_Group_translate_ranks(there, count, numbers.data(), all, ranks.data());
    MPI_Group_free(&there);
    MPI_Group_free(&all);
    return {ranks.begin(), ranks.end()};
  }

  /// @throws argument_error if MPI does not accept calls from this thread; without the lock
  void check_thread() const {
    if (thread_level_ >= MPI_THREAD_SERIALIZED) return;
    auto main = 0;
    MPI_Is_thread_main(&main);
    require(main != 0,
            "mpi: exchange in another thread than the one that has initialised MPI; expected that, "
            "or MPI_Init_thread with MPI_THREAD_SERIALIZED");
  }

  [[nodiscard]] bool has_failed() const { return failed_.has_value(); }
  /// @throws peer_failed if a rank has failed; on the failed rank, its own exception
  void check() const {
    if (!failed_.has_value()) return;
    if (failed_->thrown) std::rethrow_exception(failed_->thrown);
    auto const of = failed_->rank;
    throw peer_failed{of, of == rank_id{-1}
                              ? text("rank ", rank_, ": a rank is missing: ", failed_->what)
                              : given_up_or_failed(text("rank ", rank_), rank_, of, failed_->what)};
  }
  /// Records the first failure, and notifies all ranks. The failed rank is -1 if it is unknown.
  void fail(rank_id failed_rank, std::string const& what,
            std::exception_ptr const& thrown = nullptr) {
    if (failed_.has_value()) return;
    failed_ = {failed_rank, what, thrown};
    for (auto const peer : first_n<rank_id>(size_))
      if (peer != rank_) tell(peer, notice_of_failure(mpi_notice::kind::failed));
  }
  /// The same for a failure of this rank.
  void fail(std::exception_ptr const& thrown) { fail(rank_, detail::what(thrown), thrown); }

  /// Receives pending notices.
  void listen() {
    listened_ = polled_ = clock::now();
    for (;;) {
      auto there = 0;
      auto status = MPI_Status{};
      auto const comm = first_.comm();
      auto const probed = MPI_Iprobe(MPI_ANY_SOURCE, mpi_notice_tag, comm, &there, &status);
      if (probed != MPI_SUCCESS) return note_loss(probed);
      if (there == 0) return;
      auto notice = mpi_notice{};
      auto const code = MPI_Recv(&notice, sizeof notice, MPI_BYTE, status.MPI_SOURCE,
                                 mpi_notice_tag, comm, MPI_STATUS_IGNORE);
      if (code == MPI_SUCCESS) note(rank_id{status.MPI_SOURCE}, notice);
    }
  }

  /// The same, unless it was done recently, as an unsuccessful poll costs a time slice where ranks
  /// share cores. Data that has arrived since is valid even if its sender has failed: memory_stays
  /// is much longer.
  void listen_at_times() {
    if (clock::now() - listened_ > std::chrono::milliseconds{1}) listen();
  }

  /// To be called before sending: lets MPI detect that the connection to a peer on another node has
  /// ended, as Open MPI does not recover from writing to it. Not if MPI was called recently: where
  /// ranks share cores, an unsuccessful poll before each of several messages costs more than they do.
  void look_at(rank_id peer) {
    if (!peers_[peer.index()].is_near && clock::now() - polled_ > std::chrono::microseconds{250})
      listen();
  }
  /// To be called when requests have been tested, which detects it as well.
  void note_poll() { polled_ = clock::now(); }

  void count_sent(rank_id to) { ++peers_[to.index()].sent; }
  void count_received(rank_id from) { ++peers_[from.index()].received; }
  [[nodiscard]] bool any_has_left() const { return left_ != 0; }
  /// Whether a peer has left, and no batch from it is in flight.
  [[nodiscard]] bool is_silent(rank_id peer) const {
    auto const& of = peers_[peer.index()];
    return of.left.has_value() && of.left->sent == of.received;
  }
  /// Whether a peer has left without having received all batches sent to it.
  [[nodiscard]] bool is_deaf(rank_id peer) const {
    auto const& of = peers_[peer.index()];
    return of.left.has_value() && of.left->received < of.sent;
  }

  /// Records, until forgotten, which peer this rank waits for in a communicator, to answer notices.
  void remember(int context, rank_id peer) {
    forget(context);
    waits_.emplace_back(context, peer);
  }
  void forget(int context) {
    std::erase_if(waits_, [&](auto const& wait) { return wait.first == context; });
  }
  void ask(rank_id peer, int context) {
    peers_[peer.index()].awaits.reset();
    auto notice = mpi_notice{};
    notice.what = mpi_notice::kind::asks;
    notice.context = context;
    tell(peer, notice);
  }
  /// The answer of a peer: which rank it waits for; itself if none.
  [[nodiscard]] std::optional<rank_id> answer(rank_id peer) const {
    return peers_[peer.index()].awaits;
  }

  /// Tells all others that this rank takes part in no more calls; `thrown` is its exception, null
  /// if it has finished.
  void leave(std::exception_ptr const& thrown) {
    if (has_said_farewell_) return;
    has_said_farewell_ = true;
    for (auto const peer : first_n<rank_id>(size_)) {
      if (peer == rank_) continue;
      auto notice = notice_of_failure(mpi_notice::kind::left);
      notice.threw = thrown != nullptr ? 1 : 0;
      notice.sent = peers_[peer.index()].sent;
      notice.received = peers_[peer.index()].received;
      tell(peer, notice);
    }
  }
  /// To be called when ranks are lost and the others continue with another communicator and another
  /// monitor: no rank sends a farewell here any more.
  void go_on_elsewhere() { goes_on_elsewhere_ = true; }
  [[nodiscard]] bool goes_on_elsewhere() const { return goes_on_elsewhere_; }
  /// A rank that has not left; empty if all have.
  [[nodiscard]] std::optional<rank_id> still_there() const {
    for (auto const peer : first_n<rank_id>(size_))
      if (peer != rank_ && !peers_[peer.index()].left.has_value()) return peer;
    return {};
  }
  /// Whether any rank has left by an exception.
  [[nodiscard]] bool any_threw() const {
    return std::ranges::any_of(peers_,
                               [](peer_state const& of) { return of.left && of.left->threw != 0; });
  }

 private:
  struct peer_state {
    std::uint64_t sent = 0;  // batches, in all communicators
    std::uint64_t received = 0;
    bool is_near = false;  // on this node
    std::optional<mpi_notice> left;
    std::optional<rank_id> awaits;  // its answer
  };
  struct told_notice {
    mpi_notice notice;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  [[nodiscard]] mpi_notice notice_of_failure(mpi_notice::kind what) const {
    auto notice = mpi_notice{};
    notice.what = what;
    if (!failed_.has_value()) return notice;
    notice.rank = failed_->rank.value();
    notice.say(failed_->what);
    return notice;
  }
  /// Sends a notice without waiting; if the peer has ended, it never arrives.
  void tell(rank_id to, mpi_notice const& notice) {
    clear_told();
    auto& told = told_.emplace_back();
    told.notice = notice;
    MPI_Isend(&told.notice, sizeof notice, MPI_BYTE, to.value(), mpi_notice_tag, first_.comm(),
              &told.request);
  }
  void clear_told() {
    auto done = 1;
    while (!told_.empty() && done != 0) {
      if (MPI_Test(&told_.front().request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (done != 0) told_.pop_front();
    }
  }
  void note(rank_id from, mpi_notice const& notice) {
    auto& of = peers_[from.index()];
    switch (notice.what) {
      case mpi_notice::kind::failed:
        note_failure(notice);
        break;
      case mpi_notice::kind::left:
        of.left = notice;
        ++left_;
        if (notice.rank >= 0) note_failure(notice);
        break;
      case mpi_notice::kind::asks: {
        auto reply = mpi_notice{};
        reply.what = mpi_notice::kind::awaits;
        reply.rank = awaited(notice.context);
        tell(from, reply);
        break;
      }
      case mpi_notice::kind::awaits:
        of.awaits = notice.rank >= 0 ? rank_id{notice.rank} : from;
    }
  }
  void note_failure(mpi_notice const& notice) {
    if (!failed_.has_value()) failed_ = {rank_id{notice.rank}, notice.text.data(), nullptr};
  }
  /// With ULFM, receives from any source fail once a rank is lost, or others have begun to continue
  /// without it. Records that as a failure.
  /// @param code of MPI; other errors are reported by the exchange
  void note_loss(int code) {
    switch (mpi_loss_of(code)) {
      case mpi_loss::none:
        break;
      case mpi_loss::ended:
        fail(rank_id{mpi_first_ended(first_.comm())}, "its process has ended");
        break;
      case mpi_loss::given_up:
        fail(rank_id{-1}, "others go on without the ranks that are lost");
    }
  }
  /// The rank that this rank waits for in a communicator, or else in any; -1 if none.
  [[nodiscard]] int awaited(int context) const {
    auto const here = std::ranges::find(waits_, context, &std::pair<int, rank_id>::first);
    if (here != waits_.end()) return here->second.value();
    return waits_.empty() ? -1 : waits_.front().second.value();
  }

  mpi_options options_;
  mpi_handle first_;  // of the first communicator: notices are sent over it
  std::mutex mutex_;
  rank_id rank_;
  int size_ = 0;
  int thread_level_ = MPI_THREAD_SINGLE;
  int most_tag_ = 0;
  std::vector<std::size_t> part_bytes_;
  mpi_lending lending_;
  bool has_said_farewell_ = false;
  bool goes_on_elsewhere_ = false;
  int left_ = 0;
  std::optional<failure> failed_;
  clock::time_point listened_;
  clock::time_point polled_;
  std::vector<peer_state> peers_;               // [ranks]
  std::vector<std::pair<int, rank_id>> waits_;  // communicator, peer
  std::deque<told_notice> told_;                // may be in flight
};

}  // namespace fssdp::detail
