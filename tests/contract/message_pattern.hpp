// SPDX-License-Identifier: Apache-2.0
/// Messages between ranks, with contents that tell where each belongs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "support/dice.hpp"
#include "support/differences.hpp"

namespace contract {

/// Who sends what to whom in one exchange: sizes(from, to) has the bytes of each message.
class message_pattern {
 public:
  using sizes_type = std::vector<std::size_t>;

  /// `count` messages of `bytes` bytes from every rank to every other.
  message_pattern(int ranks, std::size_t count, std::size_t bytes)
      : ranks_{static_cast<std::size_t>(ranks)}, sizes_(ranks_ * ranks_) {
    for (std::size_t from = 0; from < ranks_; ++from)
      for (std::size_t to = 0; to < ranks_; ++to)
        if (from != to) sizes_[from * ranks_ + to].assign(count, bytes);
  }
  /// Any number of messages of any size; between every other pair none.
  message_pattern(int ranks, support::dice& draw) : message_pattern{ranks, 0, 0} {
    auto const sizes = sizes_type{0, 0, 1, 2, 3, 7, 64, 1000, 100'000};
    for (std::size_t pair = 0; pair < sizes_.size(); ++pair) {
      auto const to_itself = pair / ranks_ == pair % ranks_;
      for (auto i = draw.chance(50) ? 0 : draw.between(1, 3); i > 0 && !to_itself; --i)
        sizes_[pair].push_back(draw.one_of(sizes));
    }
  }

  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] sizes_type const& sizes(std::size_t from, std::size_t to) const {
    return sizes_[from * ranks_ + to];
  }

 private:
  std::size_t ranks_;
  std::vector<sizes_type> sizes_;  // [from, to]
};

/// The messages of one rank in one exchange.
class rank_messages {
 public:
  rank_messages(message_pattern const& of, fssdp::rank_id rank, int turn)
      : me_{rank.index()}, turn_{turn}, out_(of.ranks()), in_(of.ranks()) {
    for (std::size_t peer = 0; peer < of.ranks(); ++peer) {
      for (auto const bytes : of.sizes(me_, peer))
        out_[peer].push_back(content(me_, peer, out_[peer].size(), bytes));
      for (auto const bytes : of.sizes(peer, me_)) in_[peer].emplace_back(bytes);
    }
  }

  /// Names all of them, in every other exchange what is to arrive first.
  template <class Batch>
  void name(Batch& batch) {
    if (turn_ % 2 == 0) name_received(batch);
    for (std::size_t peer = 0; peer < out_.size(); ++peer)
      for (auto const& bytes : out_[peer]) batch.send(std::span{bytes}, fssdp::rank_id{peer});
    if (turn_ % 2 == 1) name_received(batch);
  }
  /// What has not arrived as it should. What was sent is wiped: nobody reads it any more.
  [[nodiscard]] support::differences wrong() {
    for (auto& messages : out_)
      for (auto& bytes : messages) bytes.assign(bytes.size(), std::byte{});
    auto found = support::differences{};
    for (std::size_t peer = 0; peer < in_.size(); ++peer)
      for (std::size_t i = 0; i < in_[peer].size(); ++i)
        found.compare_all(in_[peer][i], content(peer, me_, i, in_[peer][i].size()), "rank ", me_,
                          ", message ", i, " from rank ", peer, ", exchange ", turn_);
    return found;
  }

 private:
  using message = std::vector<std::byte>;

  template <class Batch>
  void name_received(Batch& batch) {
    for (std::size_t peer = 0; peer < in_.size(); ++peer)
      for (auto& bytes : in_[peer]) batch.recv(std::span{bytes}, fssdp::rank_id{peer});
  }
  /// Any bytes but zeros.
  [[nodiscard]] message content(std::size_t from, std::size_t to, std::size_t i,
                                std::size_t bytes) const {
    auto seed = ((from * 97 + to) * 97 + i) * 97 + static_cast<std::size_t>(turn_);
    auto made = message(bytes);
    for (auto& byte : made) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::byte>((seed >> 33U) % 255 + 1);
    }
    return made;
  }

  std::size_t me_;
  int turn_;
  std::vector<std::vector<message>> out_;  // [to]
  std::vector<std::vector<message>> in_;   // [from]
};

}  // namespace contract
