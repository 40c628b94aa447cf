// SPDX-License-Identifier: Apache-2.0
/// A communicator that throws at a chosen moment.
#pragma once

#include <stdexcept>
#include <utility>

#include "fssdp/comm/communicator.hpp"

namespace support {

/// What the rank that fails throws: nothing that the library knows.
struct broken_rank : std::logic_error {
  broken_rank() : std::logic_error{"out of order"} {}
};

enum class moment { before_exchange, in_post, behind_post, in_visit, behind_exchange };

/// Throws broken_rank at one moment of the n-th exchange (from 1); never if n is 0. Else it passes
/// everything on.
template <fssdp::communicator Comm>
class failing {
 public:
  using stream_type = typename Comm::stream_type;
  using memory_space = typename Comm::memory_space;

  failing(Comm& comm, moment when, int exchange) : comm_{comm}, when_{when}, left_{exchange} {}

  [[nodiscard]] fssdp::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] int size() const { return comm_.size(); }

  template <class Post>
  void exchange(Post&& post) {
    --left_;
    break_at(moment::before_exchange);
    comm_.exchange(fragile(post));
    break_at(moment::in_visit);  // there is no visit; the nearest is behind the exchange
    break_at(moment::behind_exchange);
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires fssdp::lending_communicator<Comm> {
    --left_;
    break_at(moment::before_exchange);
    comm_.lend(fragile(post), [&](auto const lent) {
      break_at(moment::in_visit);
      visit(lent);
    });
    break_at(moment::behind_exchange);
  }

 private:
  void break_at(moment now) const {
    if (left_ == 0 && when_ == now) throw broken_rank{};
  }
  template <class Post>
  [[nodiscard]] auto fragile(Post& post) const {
    return [&](auto& batch) {
      break_at(moment::in_post);
      post(batch);
      break_at(moment::behind_post);
    };
  }

  Comm& comm_;
  moment when_;
  int left_;
};

}  // namespace support
