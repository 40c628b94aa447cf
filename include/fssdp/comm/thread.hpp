// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads of this process: the default back end, and the reference.
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

/// Runs a function once per rank, each in its own thread, with a communicator between them.
class thread_world {
 public:
  struct options {
    int ranks = 1;
    std::chrono::milliseconds deadline =
        std::chrono::seconds{60};  ///< for every wait; milliseconds::max() for none
    /// If it has ranks, messages take the time that they would take on the ports of this topology.
    /// Without ranks, messages are not delayed.
    topology ports = {};
  };

  /// @throws argument_error unless there is at least one rank, the deadline is positive, and
  ///         `ports`, if it has ranks, has as many
  explicit thread_world(options const& of);
  explicit thread_world(int ranks) : thread_world{options{.ranks = ranks}} {}

  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;
  ~thread_world();

  [[nodiscard]] int size() const;

  /// Calls `rank_main(comm)` on every rank and waits for all of them.
  ///
  /// If rank_main throws on a rank, the current or next exchange of every other rank throws a
  /// peer_failed that names it. If it returns while other ranks still wait for it, these get the
  /// peer_failed at once, and ranks that wait for them fail in turn; no other rank is affected.
  /// @pre when rank_main returns, its work on streams has run
  /// @throws the exception of the rank that failed first; argument_error if the world runs already,
  ///         in another thread or because one of its ranks calls this
  void run(detail::function_ref<void(thread_communicator&)> rank_main);

 private:
  std::unique_ptr<detail::thread_world_state> state_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/comm/thread/thread_inl.hpp"
#endif
