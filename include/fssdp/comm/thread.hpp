// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads of this process: the embedded default, and the reference back end.
#pragma once

#include <chrono>
#include <memory>

#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {
class thread_world_state;
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
  explicit thread_world(options const& of);
  explicit thread_world(int ranks) : thread_world{options{.ranks = ranks}} {}

  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;
  ~thread_world();

  [[nodiscard]] int size() const;

  /// Calls `rank_main(comm)` on every rank and waits for all of them.
  ///
  /// When a rank leaves by an exception, every other rank gets a peer_failed that names it from its
  /// current or next exchange. When it returns while others still await it, those get the
  /// peer_failed at once, and through them everybody; nobody else is disturbed.
  /// @pre when rank_main returns on a rank, what it has put on streams has run
  /// @throws the exception of the rank that failed first; argument_error if the world runs already:
  ///         in another thread, or as a rank of it calls
  void run(detail::function_ref<void(thread_communicator&)> rank_main);

 private:
  std::unique_ptr<detail::thread_world_state> state_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/comm/thread/thread_inl.hpp"
#endif
