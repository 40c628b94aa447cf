// SPDX-License-Identifier: Apache-2.0
/// An adaptor that fails on purpose, at a chosen moment of a chosen exchange.
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

/// How a rank fails.
enum class fault_kind {
  throws,  ///< an injected_fault leaves the call
  stalls,  ///< the rank waits at a gate, then continues as if nothing had happened
  leaves,  ///< a rank_left leaves the call: the rank's main function catches it and returns
  acts,    ///< the rank calls a function, which may end its process, then continues
};

/// The moment of the failure within one exchange.
enum class fault_moment {
  before_exchange,
  in_post,      ///< before it has added a message
  behind_post,  ///< all messages are added, none is sent
  in_visit,     ///< while peers' memory is read, or when the first message has arrived; if there is
                ///< neither, after the exchange
  behind_exchange,  ///< all messages have arrived
};

/// The exception of an intended failure; the library does not know it otherwise.
class injected_fault : public error {
  using error::error;
};

/// Leaves the main function of a rank without an error: to be caught there, followed by a return.
/// The other ranks then see a rank that ended early.
class rank_left : public error {
  using error::error;
};

/// Where ranks stall until they are released. Several ranks may share one.
class stall_gate {
 public:
  stall_gate() = default;
  stall_gate(stall_gate const&) = delete;
  stall_gate& operator=(stall_gate const&) = delete;

  /// Lets all ranks pass, from now on.
  void release() {
    is_open_ = 1;
    is_open_.notify_all();
  }
  /// Blocks until the gate is released.
  void wait() const { is_open_.wait(0); }

 private:
  std::atomic<int> is_open_ = 0;
};

/// The failure of one rank; it happens once.
struct fault {
  fault_kind kind = fault_kind::throws;
  int exchange = 0;  ///< the number of the exchange (lend, forward) of the rank, from 1; 0: none
  fault_moment moment = fault_moment::before_exchange;
  stall_gate* gate = nullptr;  ///< where the rank stalls; outlives the communicator
  void (*act)() = nullptr;     ///< the function of fault_kind::acts
};

/// A communicator that fails once, and passes everything on before and after; it has the optional
/// functions of the inner communicator. Exchanges of submitted work are counted, too; a failure
/// there happens in the thread that runs the work.
/// @cost one allocation at construction
template <communicator Comm>
class faulty : public communicator_adaptor<faulty<Comm>, Comm> {
 public:
  /// @throws argument_error if the exchange is negative, or a gate or function that the kind needs
  ///         is null
  faulty(Comm& comm, fault const& given)
      : faulty::communicator_adaptor{comm}, fault_{given}, exchange_{std::make_shared<int>(0)} {
    detail::require(given.exchange >= 0, "faulty: exchange is ", given.exchange,
                    "; expected 1 or more, or 0 for no fault");
    detail::require(given.kind != fault_kind::stalls || given.gate != nullptr,
                    "faulty: a fault that stalls without a gate; expected one");
    detail::require(given.kind != fault_kind::acts || given.act != nullptr,
                    "faulty: a fault that acts without a function; expected one");
  }

  /// The adaptor for submitted work.
  template <communicator Inner>
  [[nodiscard]] faulty<Inner> around(Inner& inner) const {
    return {inner, fault_, exchange_};
  }

  /// @throws injected_fault, rank_left; exceptions of the inner communicator
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
    if (first) break_at(fault_moment::in_visit);  // no message has arrived
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
  std::shared_ptr<int> exchange_;  // the number of the current one, from 1
};

}  // namespace fssdp
