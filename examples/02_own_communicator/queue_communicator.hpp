// SPDX-License-Identifier: Apache-2.0
/// fssdp over queues of byte vectors: the adapter, and a host that has such queues.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"

/// A queue of messages from one thread to another.
class message_queue {
 public:
  struct message {
    fssdp::batch_label tag;
    std::vector<std::byte> bytes;
  };

  void push(message next) {
    {
      auto const lock = std::scoped_lock{mutex_};
      messages_.push_back(std::move(next));
    }
    arrived_.notify_one();
  }
  /// The next message; nothing if none has come when the time is up.
  [[nodiscard]] std::optional<message> pop(std::chrono::milliseconds deadline) {
    auto lock = std::unique_lock{mutex_};
    if (!arrived_.wait_for(lock, deadline, [this] { return !messages_.empty(); })) return {};
    auto first = std::move(messages_.front());
    messages_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<message> messages_;
};

class queue_communicator;

/// What a host framework has already: a pair of queues between any two of its ranks.
class queue_host {
 public:
  static constexpr auto name = "queues";

  explicit queue_host(int ranks, std::chrono::milliseconds deadline = std::chrono::seconds{30})
      : ranks_{ranks}, deadline_{deadline}, queues_(static_cast<std::size_t>(ranks * ranks)) {}

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const { return deadline_; }
  [[nodiscard]] message_queue& queue(fssdp::rank_id from, fssdp::rank_id to) {
    return queues_[from.index() * static_cast<std::size_t>(ranks_) + to.index()];
  }
  [[nodiscard]] queue_communicator connect(fssdp::rank_id rank);

 private:
  int ranks_;
  std::chrono::milliseconds deadline_;
  std::deque<message_queue> queues_;  // [from, to]
};

/// A rank of a queue_host. Sending copies the bytes into a queue, so no other rank reads them afterwards.
/// Messages carry the label of their batch: ranks that are in different collectives are told.
class queue_communicator {
 public:
  queue_communicator(queue_host& host, fssdp::rank_id rank) : host_{&host}, rank_{rank} {}

  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return host_->ranks(); }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = messages{};
    post(batch);  // names the messages; if it throws, nothing has been sent
    for (auto const& [bytes, to] : batch.out)
      host_->queue(rank_, to).push({batch.tag, {bytes.begin(), bytes.end()}});
    for (auto const& [bytes, from] : batch.in) {
      auto const message = host_->queue(from, rank_).pop(host_->deadline());
      if (!message) throw fssdp::deadline_exceeded{from, "no message within the deadline"};
      if (message->tag != batch.tag || message->bytes.size() != bytes.size())
        throw fssdp::ranks_disagree{from, name(message->tag, message->bytes.size()) +
                                              "; expected " + name(batch.tag, bytes.size())};
      std::ranges::copy(message->bytes, bytes.begin());
    }
  }

 private:
  struct messages {
    fssdp::batch_label tag;
    void label(fssdp::batch_label const& value) { tag = value; }
    std::vector<std::pair<std::span<std::byte const>, fssdp::rank_id>> out;
    std::vector<std::pair<std::span<std::byte>, fssdp::rank_id>> in;
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) { out.emplace_back(bytes, to); }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) { in.emplace_back(bytes, from); }
  };

  [[nodiscard]] static std::string name(fssdp::batch_label const& tag, std::size_t bytes) {
    return std::to_string(bytes) + " bytes in round " + std::to_string(tag.round) + " of plan " +
           std::to_string(tag.plan);
  }

  queue_host* host_;
  fssdp::rank_id rank_;
};

static_assert(fssdp::communicator<queue_communicator>);

inline queue_communicator queue_host::connect(fssdp::rank_id rank) { return {*this, rank}; }
