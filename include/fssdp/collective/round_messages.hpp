// SPDX-License-Identifier: Apache-2.0
/// The messages of one round between two ranks: as few as possible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fssdp/plan/transfer.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The transfer that moves this piece between these ranks in a round; null if there is none.
/// @param transfers of the round, in its order
[[nodiscard]] inline transfer const* find_in_round(std::span<transfer const> transfers,
                                                   transfer const& wanted) {
  auto const* const end = transfers.data() + transfers.size();
  auto const* const found = std::lower_bound(transfers.data(), end, wanted, before_in_round);
  return found == end || before_in_round(wanted, *found) ? nullptr : found;
}

/// Consecutive pieces of a chunk between two ranks form one message per tensor. Sender and receiver
/// find the same messages in the same order.
/// @tparam Alike alike(a, b): whether the pieces of two transfers travel in the same form, and are
///         contiguous in shards, replicas and scratch
template <class Alike>
class round_messages {
 public:
  /// The transfers of one message, in the order of their pieces.
  class message {
   public:
    class iterator {
     public:
      iterator(round_messages const* all, transfer const* at) : all_{all}, at_{at} {}
      transfer const& operator*() const { return *at_; }
      iterator& operator++() {
        at_ = all_->neighbour(*at_, 1);
        return *this;
      }
      friend bool operator==(iterator const& a, iterator const& b) { return a.at_ == b.at_; }

     private:
      round_messages const* all_;
      transfer const* at_;
    };

    message(round_messages const& all, transfer const& first) : all_{&all}, first_{&first} {}
    [[nodiscard]] transfer const& front() const { return *first_; }
    [[nodiscard]] iterator begin() const { return {all_, first_}; }
    [[nodiscard]] iterator end() const { return {all_, nullptr}; }
    /// The number of transfers.
    [[nodiscard]] std::size_t size() const {
      auto count = std::size_t{0};
      for (auto at = begin(); at != end(); ++at) ++count;
      return count;
    }

    /// The memory from the first piece to the last.
    /// @param piece(transfer) a span of bytes
    template <class Piece>
    [[nodiscard]] auto joined(Piece piece) const {
      auto all = piece(front());
      auto size = std::size_t{0};
      for (auto const& t : *this) size += piece(t).size();
      return decltype(all){all.data(), size};
    }

   private:
    round_messages const* all_;
    transfer const* first_;
  };

  /// @param transfers what a rank sends or receives in a round, sorted by piece and peer
  round_messages(std::span<transfer const> transfers, Alike alike)
      : transfers_{transfers}, alike_{alike} {}

  template <class Visit>
  void for_each(Visit visit) const {
    for (auto const& t : transfers_)
      if (neighbour(t, -1) == nullptr) visit(message{*this, t});
  }

 private:
  /// The transfer of an adjacent piece, if it is part of the same message.
  [[nodiscard]] transfer const* neighbour(transfer const& t, int distance) const {
    auto wanted = t;
    wanted.piece += distance;
    auto const* const found = find_in_round(transfers_, wanted);
    return found != nullptr && alike_(t, *found) ? found : nullptr;
  }

  std::span<transfer const> transfers_;
  Alike alike_;
};

}  // namespace fssdp::detail
