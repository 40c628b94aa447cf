// SPDX-License-Identifier: Apache-2.0
/// Adaptor: breaks down on purpose, at a chosen moment of a chosen exchange.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_adaptor.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// How a rank breaks down.
enum class fault_kind {
  throws,  ///< an injected_fault leaves the call
  stalls,  ///< the rank waits at a gate, then goes on as if nothing had happened
  leaves,  ///< a rank_left leaves the call: the rank's main function catches it and returns
  acts,    ///< the rank does what it is told, which may end its process, then goes on
};

/// When it does, within one exchange.
enum class fault_moment {
  before_exchange,
  in_post,      ///< before it has named a message
  behind_post,  ///< all messages are named, nothing is sent
  in_visit,     ///< while peers' memory is borrowed, or when the first message has arrived; where
                ///< there is neither, behind the exchange
  behind_exchange,  ///< all has arrived
};

/// What a rank throws on purpose: nothing that the rest of the library knows.
class injected_fault : public error {
  using error::error;
};

/// What takes a rank out of its main function without an error: catch it there, and return. The
/// other ranks then see a rank that has gone without a word.
class rank_left : public error {
  using error::error;
};

/// Where ranks stall until they are released; any number of ranks may share one.
class stall_gate {
 public:
  stall_gate() = default;
  stall_gate(stall_gate const&) = delete;
  stall_gate& operator=(stall_gate const&) = delete;

  /// Lets everybody pass, from now on.
  void release() {
    is_open_ = 1;
    is_open_.notify_all();
  }
  /// Blocks until it is released.
  void wait() const { is_open_.wait(0); }

 private:
  std::atomic<int> is_open_ = 0;
};

/// What goes wrong on one rank, once.
struct fault {
  fault_kind kind = fault_kind::throws;
  int exchange = 0;  ///< in which exchange (lend, forward) of the rank, from 1; 0: in none
  fault_moment moment = fault_moment::before_exchange;
  stall_gate* gate = nullptr;  ///< where a rank stalls; outlives the communicator
  void (*act)() = nullptr;     ///< what it does
};

/// A communicator that breaks down once and passes everything on, before and after: what the inner
/// one offers, it offers. Exchanges of submitted work count with the others; a fault there is one
/// of the thread that runs it.
/// @cost one allocation when it is made
template <communicator Comm>
class faulty : public communicator_adaptor<faulty<Comm>, Comm> {
 public:
  /// @throws argument_error if the exchange is negative, or a rank is to stall without a gate, or
  ///         to do nothing
  faulty(Comm& comm, fault const& given)
      : faulty::communicator_adaptor{comm}, fault_{given}, exchange_{std::make_shared<int>(0)} {
    detail::require(given.exchange >= 0, "faulty: a fault in exchange ", given.exchange,
                    "; expected 1 or more, or 0 for none");
    detail::require(given.kind != fault_kind::stalls || given.gate != nullptr,
                    "faulty: a rank that stalls needs a gate");
    detail::require(given.kind != fault_kind::acts || given.act != nullptr,
                    "faulty: a rank that acts needs to know what to do");
  }

  /// What submitted work runs with.
  template <communicator Inner>
  [[nodiscard]] faulty<Inner> around(Inner& inner) const {
    return {inner, fault_, exchange_};
  }

  /// @throws injected_fault, rank_left; what the inner one throws
  template <class Post>
  void exchange(Post&& post) {
    ++*exchange_;
    break_at(fault_moment::before_exchange);
    this->inner().exchange([&](exchange_batch auto& batch) { fragile(post)(batch); });
    break_at(fault_moment::in_visit);
    break_at(fault_moment::behind_exchange);
  }
  /// @throws as exchange
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    ++*exchange_;
    break_at(fault_moment::before_exchange);
    this->inner().lend(fragile(post), [&](auto const& lent) {
      break_at(fault_moment::in_visit);
      visit(lent);
    });
    break_at(fault_moment::behind_exchange);
  }

  /// @throws as exchange
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    ++*exchange_;
    break_at(fault_moment::before_exchange);
    auto first = true;
    this->inner().forward(fragile(post), [&](std::size_t wanted, auto const& bytes, auto& gate) {
      if (std::exchange(first, false)) break_at(fault_moment::in_visit);
      arrived(wanted, bytes, gate);
    });
    if (first) break_at(fault_moment::in_visit);  // there was nothing to arrive
    break_at(fault_moment::behind_exchange);
  }

 private:
  template <communicator Other>
  friend class faulty;

  faulty(Comm& comm, fault const& given, std::shared_ptr<int> exchange)
      : faulty::communicator_adaptor{comm}, fault_{given}, exchange_{std::move(exchange)} {}

  template <class Post>
  [[nodiscard]] auto fragile(Post& post) const {
    return [&](auto& batch) {
      break_at(fault_moment::in_post);
      post(batch);
      break_at(fault_moment::behind_post);
    };
  }

  void break_at(fault_moment now) const {
    if (*exchange_ != fault_.exchange || now != fault_.moment) return;
    switch (fault_.kind) {
      case fault_kind::throws:
        throw injected_fault{text("fails on purpose ", now)};
      case fault_kind::leaves:
        throw rank_left{text("leaves on purpose ", now)};
      case fault_kind::stalls:
        fault_.gate->wait();
        break;
      case fault_kind::acts:
        fault_.act();
    }
  }
  [[nodiscard]] std::string text(char const* deed, fault_moment now) const {
    return detail::text("rank ", this->rank(), " ", deed, place(now), " exchange ", *exchange_);
  }
  [[nodiscard]] static char const* place(fault_moment moment) {
    switch (moment) {
      case fault_moment::before_exchange:
        return "before";
      case fault_moment::in_post:
        return "in the post of";
      case fault_moment::behind_post:
        return "behind the post of";
      case fault_moment::in_visit:
        return "in the visit of";
      case fault_moment::behind_exchange:
        break;
    }
    return "behind";
  }

  fault fault_;
  std::shared_ptr<int> exchange_;  // the current one, from 1
};

}  // namespace fssdp
