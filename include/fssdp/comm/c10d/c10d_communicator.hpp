// SPDX-License-Identifier: Apache-2.0
/// A rank of a process group with host tensors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/c10d/c10d_backend.hpp"
#include "fssdp/comm/c10d/c10d_batch.hpp"
#include "fssdp/comm/c10d/c10d_options.hpp"
#include "fssdp/comm/c10d/c10d_roll_call.hpp"
#include "fssdp/comm/c10d/c10d_transfers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// A rank of a process group of PyTorch with a back end for host tensors: Gloo, MPI, UCC or another
/// one.
///
///     auto comm = fssdp::c10d_communicator{group};
///     fssdp::sparse_all_gather(comm, plan, weights, replicas);
///
/// Each communicator needs its own group (dist.new_group), which nothing else uses: a group may be
/// used by one thread at a time. After a failure the group cannot be used any more: Gloo closes its
/// connections when a deadline has passed.
///
/// Ranks in different collectives are detected: before its messages to a peer, a rank sends a
/// description of them (ranks_disagree). Tags are computed from the same description, so that no
/// message is received in place of another.
///
/// @cost per exchange and peer: a message of 1 KiB with as many small messages as fit; the other
///       small ones (up to 32 KiB each, 1 MiB in total) in a second message; and all larger
///       messages
class c10d_communicator {
 public:
  /// @throws argument_error if the group is null or has no back end for the host, or the deadline
  ///         is not positive
  explicit c10d_communicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
                             c10d_options options = {})
      : group_{std::move(group)},
        options_{std::move(options)},
        transfers_{detail::c10d_backend_of(group_, c10::DeviceType::CPU)},
        rank_{transfers_.backend().getRank()},
        batch_{rank_, transfers_.backend().getSize()} {
    detail::check_deadline("c10d_communicator", options_.deadline);
  }
  c10d_communicator(c10d_communicator&&) = default;
  c10d_communicator& operator=(c10d_communicator&&) = default;
  ~c10d_communicator() = default;

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return transfers_.backend().getSize(); }
  /// The group of this communicator.
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> const& group() const { return group_; }
  /// Whether an error has occurred: each later call throws.
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @throws what `post` throws and argument_error, before anything is sent; ranks_disagree;
  ///         peer_failed if a connection is lost; deadline_exceeded; poisoned_stream if an earlier
  ///         call has failed
  template <class Post>
  void exchange(Post&& post) {
    failure_.check(rank_);
    batch_.clear();
    post(batch_);
    if (batch_.in().empty() && batch_.out().empty()) {
      ++sequence_;
      return;
    }
    exchange_all();
  }

  /// Another communicator between the same ranks, for another thread or stream.
  /// @throws argument_error without c10d_options::make_group; its exceptions
  [[nodiscard]] c10d_communicator duplicate() {
    return {detail::c10d_group_from(options_), options_, roll_call_.next()};
  }

  /// Agrees with all other ranks that call it on the lost ranks (survivable_communicator).
  /// @cost if any are lost, it takes the whole deadline; some reads of the store
  /// @throws argument_error without c10d_options::store; peer_failed if the others have continued
  ///         without this rank; transport_error if the store cannot be reached
  [[nodiscard]] std::vector<rank_id> find_lost() {
    detail::require(options_.store != nullptr,
                    "find_lost: a group that has failed cannot send; expected "
                    "c10d_options::store, where its ranks meet");
    return roll_call_.hold(*options_.store, rank_, size(), options_.deadline);
  }
  /// A communicator between the remaining ranks when some are lost, renumbered in the same order
  /// (shrinkable_communicator). All remaining ranks call it, with the same list.
  /// @throws argument_error without c10d_options::make_group_of, or if a rank does not exist;
  ///         exceptions of make_group_of
  [[nodiscard]] c10d_communicator without(std::span<rank_id const> lost) {
    auto const left = detail::ranks_left(detail::checked_lost(lost, rank_, size()), size());
    auto options = detail::c10d_options_of(options_, left);
    auto group = options.make_group();
    return {std::move(group), std::move(options), roll_call_.next()};
  }

 private:
  c10d_communicator(c10::intrusive_ptr<c10d::ProcessGroup> group, c10d_options options,
                    detail::c10d_roll_call roll_call)
      : c10d_communicator{std::move(group), std::move(options)} {
    roll_call_ = std::move(roll_call);
  }

  /// The parts of staging_ of one peer and direction: the head and the second message.
  struct staged_stream {
    rank_id peer;
    std::span<std::byte> bytes;
    std::size_t head = static_cast<std::size_t>(-1);  // the index of its transfer, once started
  };

  void exchange_all();
  void start();
  void finish();
  void let_peers_know() noexcept;
  /// Enlarges staging_ if necessary.
  void reserve(std::size_t bytes);
  [[nodiscard]] at::Tensor staged_tensor(std::span<std::byte> bytes) const;
  [[nodiscard]] at::Tensor head_of(staged_stream const& of) const {
    return staged_tensor(of.bytes.first(detail::c10d_batch::head_bytes));
  }
  [[nodiscard]] int tag_of(std::size_t index, std::size_t bytes) const {
    return detail::c10d_tag(batch_.name(), index, bytes, transfers_.most_tag());
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10d_options options_;
  detail::c10d_transfers transfers_;
  rank_id rank_;
  detail::c10d_batch batch_;
  std::uint64_t sequence_ = 0;
  std::shared_ptr<std::byte[]> staging_;
  std::size_t staging_bytes_ = 0;
  std::vector<staged_stream> in_;
  std::vector<staged_stream> out_;
  detail::failure_state failure_;
  detail::c10d_roll_call roll_call_;
};

inline void c10d_communicator::exchange_all() {
  batch_.close(++sequence_);
  try {
    start();
    finish();
    transfers_.clear();
  } catch (...) {
    failure_.set(detail::c10d_failure(rank_, transfers_.peer(), batch_.name()));
    let_peers_know();
    transfers_.give_up();
    failure_.rethrow();
  }
}

/// Starts all messages: receives before sends.
inline void c10d_communicator::start() {
  using batch_type = detail::c10d_batch;
  in_.clear();
  out_.clear();
  reserve(batch_.staged_bytes());
  auto* room = staging_.get();
  auto const stage = [&](rank_id peer, batch_type::stream const& of) {
    auto const bytes = std::span{room, of.staged_bytes()};
    room += bytes.size();
    return staged_stream{peer, bytes};
  };
  auto const start_stream = [&](staged_stream& of, batch_type::stream const& stream, auto begin) {
    of.head = begin(head_of(of), of.peer, detail::c10d_header::tag);
    if (auto const behind = of.bytes.subspan(batch_type::head_bytes); !behind.empty())
      begin(staged_tensor(behind), of.peer, tag_of(stream.header.sizes.messages, behind.size()));
  };
  auto const start_messages = [&](std::span<batch_type::message const> messages, auto begin) {
    for (auto const& of : messages)
      if (!of.is_packed)
        begin(detail::c10d_bytes(of.data, of.bytes, c10::kCPU), of.peer,
              tag_of(of.index, of.bytes));
  };
  auto const receive = [&](at::Tensor bytes, rank_id from, int tag) {
    return transfers_.recv(std::move(bytes), from, tag);
  };
  auto const send = [&](at::Tensor bytes, rank_id to, int tag) {
    return transfers_.send(std::move(bytes), to, tag);
  };
  for (auto const peer : first_n<rank_id>(size())) {
    if (!batch_.from(peer).is_empty()) in_.push_back(stage(peer, batch_.from(peer)));
    if (batch_.to(peer).is_empty()) continue;
    out_.push_back(stage(peer, batch_.to(peer)));
    batch_.pack(peer, out_.back().bytes);
  }
  transfers_.together([&] {
    for (auto& of : in_) start_stream(of, batch_.from(of.peer), receive);
    start_messages(batch_.in(), receive);
    for (auto& of : out_) start_stream(of, batch_.to(of.peer), send);
    start_messages(batch_.out(), send);
  });
}

/// Waits for all messages: heads first, as they show disagreements and missing ranks.
inline void c10d_communicator::finish() {
  for (auto const& of : in_) {
    transfers_.wait(of.head, options_.deadline);
    if (auto const difference = batch_.difference(of.peer, of.bytes); !difference.empty())
      throw detail::disagreement(rank_, of.peer, difference);
  }
  for (std::size_t i = 0; i < transfers_.size(); ++i) transfers_.wait(i, options_.deadline);
  for (auto const& of : in_) batch_.unpack(of.peer, of.bytes);
}

/// To be called after a failure: sends this rank's heads to ranks that still come, also if it
/// failed before it began to send, so that they report the rank that caused the failure. Limits the
/// time for it.
inline void c10d_communicator::let_peers_know() noexcept {
  using std::chrono::milliseconds;
  auto const soon = std::min<milliseconds>(options_.deadline, std::chrono::seconds{2});
  auto const until = std::chrono::steady_clock::now() + soon;
  auto const left = [&] {
    auto const time = until - std::chrono::steady_clock::now();
    return std::max(milliseconds{1}, std::chrono::ceil<milliseconds>(time));
  };
  auto const failed = transfers_.peer();
  auto const for_each_other = [&](auto visit) {
    for (auto& of : out_) try {
        if (of.peer != failed) visit(of);
      } catch (...) {  // this peer cannot be reached
      }
  };
  for_each_other([&](staged_stream& of) {
    if (of.head < transfers_.size()) return;
    of.head = transfers_.send(head_of(of), of.peer, detail::c10d_header::tag);
  });
  for_each_other([&](staged_stream const& of) {
    if (of.head < transfers_.size()) transfers_.wait(of.head, left());
  });
}

inline void c10d_communicator::reserve(std::size_t bytes) {
  if (bytes <= staging_bytes_) return;
  staging_ = std::shared_ptr<std::byte[]>{new std::byte[bytes]};
  staging_bytes_ = bytes;
}
/// A tensor that keeps the memory alive as long as the back end has it.
inline at::Tensor c10d_communicator::staged_tensor(std::span<std::byte> bytes) const {
  return at::from_blob(
      bytes.data(), {static_cast<std::int64_t>(bytes.size())}, [keep = staging_](void*) {},
      at::kByte);
}

static_assert(duplicable_communicator<c10d_communicator> &&
              survivable_communicator<c10d_communicator>);

}  // namespace fssdp
