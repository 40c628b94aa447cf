// SPDX-License-Identifier: Apache-2.0
/// The implementation of thread_world: starts its ranks, waits for them, and emulates the network.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/comm/thread/port_network.hpp"
#include "fssdp/comm/thread/thread_context.hpp"
#include "fssdp/comm/thread/thread_monitor.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp {

namespace detail {

class thread_world_state {
 public:
  explicit thread_world_state(thread_world::options const& of)
      : ranks_{of.ranks}, monitor_{checked(of).ranks, of.deadline, network_of(of)} {}

  [[nodiscard]] int size() const { return ranks_; }

  /// @param main(communicator, rank) the main function of a rank
  void run(function_ref<void(thread_context&, rank_id)> main) {
    auto const alone = only_run{"thread_world", is_running_};
    auto& context = context_.emplace(monitor_, monitor_.restart(), group_ranks{ranks_});
    auto errors = std::vector<std::exception_ptr>(static_cast<std::size_t>(ranks_));
    auto threads = std::vector<std::jthread>{};  // joined in any case
    for (auto const rank : first_n<rank_id>(ranks_))
      threads.emplace_back([&, rank] {
        try {
          main(context, rank);
          auto const lock = context.lock();
          monitor_.leave(rank);
        } catch (...) {
          errors[rank.index()] = std::current_exception();
          auto const lock = context.lock();
          monitor_.leave(rank, errors[rank.index()]);
        }
      });
    auto const network = std::jthread{[this](std::stop_token stop) { deliver(stop); }};
    threads.clear();
    if (auto const first = monitor_.first_of(errors)) std::rethrow_exception(first);
  }

 private:
  static thread_world::options const& checked(thread_world::options const& of) {
    require(of.ranks >= 1, "thread_world: ", of.ranks, " ranks; expected 1 or more");
    check_deadline("thread_world", of.deadline);
    return of;
  }

  static std::optional<port_network> network_of(thread_world::options const& of) {
    if (of.ports.ranks() == 0) return std::nullopt;
    return port_network{topology_or_one_node(of.ports, of.ranks)};
  }

  /// Delivers messages in real time, if there is an emulated network.
  void deliver(std::stop_token const& stop) {
    if (!monitor_.network.has_value()) return;
    auto const wake = std::stop_callback{stop, [this] {
                                           auto const lock = std::scoped_lock{monitor_.mutex};
                                           monitor_.network_changed.notify_all();
                                         }};
    auto lock = std::unique_lock{monitor_.mutex};
    while (!stop.stop_requested()) {
      monitor_.network->advance(
          port_network::clock::now(),
          [&](auto const& where) { thread_context::arrive(where, monitor_); },
          thread_context::turn_of);
      auto const next = monitor_.network->next();
      if (next == port_network::clock::time_point::max())
        monitor_.network_changed.wait(lock);
      else
        monitor_.network_changed.wait_until(lock, next);
    }
  }

  int ranks_;
  std::atomic<bool> is_running_ = false;
  thread_monitor monitor_;
  std::optional<thread_context> context_;  // of this run, or the last one
};

}  // namespace detail

FSSDP_INLINE thread_world::thread_world(options const& of)
    : state_{std::make_unique<detail::thread_world_state>(of)} {}
FSSDP_INLINE thread_world::~thread_world() = default;

FSSDP_INLINE int thread_world::size() const { return state_->size(); }

FSSDP_INLINE void thread_world::run(detail::function_ref<void(thread_communicator&)> rank_main) {
  state_->run([&](detail::thread_context& context, rank_id rank) {
    auto comm = thread_communicator{context, rank};
    rank_main(comm);
  });
}

}  // namespace fssdp
