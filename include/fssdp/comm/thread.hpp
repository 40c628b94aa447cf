// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads of this process: the embedded default, and the reference back end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

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

}  // namespace detail

/// Runs a function once per rank, each in a thread, and lets the ranks communicate.
class thread_world {
 public:
  struct options {
    int ranks = 1;
    std::chrono::milliseconds deadline =
        std::chrono::seconds{60};  ///< for every wait; milliseconds::max() for none
    /// Throttled: messages take the time that they would take on the ports of this machine. One
    /// without ranks: none, messages are there at once.
    topology ports = {};
  };

  /// @throws argument_error unless there is at least one rank, the deadline is positive, and the
  ///         ports, if any, are for as many ranks
  explicit thread_world(options const& of)
      : ranks_{of.ranks}, monitor_{checked(of).ranks, of.deadline, network_of(of)} {}
  explicit thread_world(int ranks) : thread_world{options{.ranks = ranks}} {}

  [[nodiscard]] int size() const { return ranks_; }

  /// Calls `rank_main(comm)` on every rank and waits for all of them.
  ///
  /// When a rank leaves by an exception, every other rank gets a peer_failed that names it from its
  /// current or next exchange. When it returns while others still await it, those get the
  /// peer_failed at once, and through them everybody; nobody else is disturbed.
  /// @pre when rank_main returns on a rank, what it has put on streams has run
  /// @throws the exception of the rank that failed first; argument_error if the world runs already:
  ///         in another thread, or as a rank of it calls
  void run(detail::function_ref<void(thread_communicator&)> rank_main) {
    auto const alone = detail::only_run{"thread_world", is_running_};
    auto& lane = lane_.emplace(monitor_, detail::group_ranks{ranks_});
    monitor_.restart();
    auto errors = std::vector<std::exception_ptr>(static_cast<std::size_t>(ranks_));
    auto threads = std::vector<std::jthread>{};  // join whatever happens
    for (auto const rank : first_n<rank_id>(ranks_))
      threads.emplace_back([&, rank] {
        try {
          auto comm = thread_communicator{lane, rank};
          rank_main(comm);
          auto const lock = lane.lock();
          monitor_.leave(rank);
        } catch (...) {
          errors[rank.index()] = std::current_exception();
          auto const lock = lane.lock();
          monitor_.fail(rank, errors[rank.index()]);
        }
      });
    auto const network = std::jthread{[this](std::stop_token stop) { deliver(stop); }};
    threads.clear();
    rethrow_first(errors);
  }

 private:
  static options const& checked(options const& of) {
    detail::require(of.ranks >= 1, "thread_world: ", of.ranks, " ranks; expected 1 or more");
    detail::check_deadline("thread_world", of.deadline);
    return of;
  }

  static std::optional<detail::port_network> network_of(options const& of) {
    if (of.ports.ranks() == 0) return std::nullopt;
    return detail::port_network{topology_or_one_node(of.ports, of.ranks)};
  }

  /// Lets the network work in real time, if there is one.
  void deliver(std::stop_token const& stop) {
    if (!monitor_.network.has_value()) return;
    auto const wake = std::stop_callback{stop, [this] {
                                           auto const lock = std::scoped_lock{monitor_.mutex};
                                           monitor_.network_changed.notify_all();
                                         }};
    auto lock = std::unique_lock{monitor_.mutex};
    while (!stop.stop_requested()) {
      monitor_.network->advance(
          detail::port_network::clock::now(),
          [&](auto const& where) { detail::thread_lane::arrive(where, monitor_); },
          detail::thread_lane::turn_of);
      auto const next = monitor_.network->next();
      if (next == detail::port_network::clock::time_point::max())
        monitor_.network_changed.wait(lock);
      else
        monitor_.network_changed.wait_until(lock, next);
    }
  }

  void rethrow_first(std::vector<std::exception_ptr> const& errors) const {
    if (!monitor_.failed.has_value()) return;
    if (auto const& first = errors[monitor_.failed->rank.index()]) std::rethrow_exception(first);
    for (auto const& error : errors)  // the culprit itself has noticed nothing
      if (error) std::rethrow_exception(error);
  }

  int ranks_;
  std::atomic<bool> is_running_ = false;
  detail::thread_monitor monitor_;
  std::optional<detail::thread_lane> lane_;  // of this run, or the last
};

}  // namespace fssdp
