// SPDX-License-Identifier: Apache-2.0
/// Runs a function on every rank of a thread_world and brings back what each rank got: assertions
/// belong after the join, into the main thread.
#pragma once

#include <cstddef>
#include <exception>
#include <type_traits>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "fssdp/core/error.hpp"

namespace support {

/// What function(comm) returned: [rank].
template <class Function>
[[nodiscard]] auto on_all_ranks(fssdp::thread_world& world, Function function) {
  using result = std::invoke_result_t<Function&, fssdp::thread_communicator&>;
  static_assert(!std::is_same_v<result, bool>, "two ranks cannot write one word of vector<bool>");
  auto results = std::vector<result>(static_cast<std::size_t>(world.size()));
  world.run(
      [&](fssdp::thread_communicator& comm) { results[comm.rank().index()] = function(comm); });
  return results;
}
template <class Function>
[[nodiscard]] auto on_all_ranks(int ranks, Function function) {
  auto world = fssdp::thread_world{ranks};
  return on_all_ranks(world, function);
}

/// Who threw what.
struct fallout {
  std::vector<std::exception_ptr> of_rank;  ///< null for a rank that returned
  std::exception_ptr of_run;                ///< what came out of thread_world::run
};

/// Runs function(comm) and collects the exceptions. Each rank's goes on to the world as well.
template <class Function>
[[nodiscard]] fallout fallout_of(fssdp::thread_world& world, Function function) {
  auto result = fallout{};
  result.of_rank.resize(static_cast<std::size_t>(world.size()));
  try {
    world.run([&](fssdp::thread_communicator& comm) {
      try {
        function(comm);
      } catch (...) {
        result.of_rank[comm.rank().index()] = std::current_exception();
        throw;
      }
    });
  } catch (...) {
    result.of_run = std::current_exception();
  }
  return result;
}

/// Whether this is an Error.
template <class Error>
[[nodiscard]] bool is(std::exception_ptr const& thrown) {
  if (!thrown) return false;
  try {
    std::rethrow_exception(thrown);
  } catch (Error const&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// The rank that a transport error names; -1 if it is none.
[[nodiscard]] inline int failed_rank(std::exception_ptr const& thrown) {
  if (!thrown) return -1;
  try {
    std::rethrow_exception(thrown);
  } catch (fssdp::transport_error const& error) {
    return error.failed_rank().value();
  } catch (...) {
    return -1;
  }
}

/// The text of an exception, empty if there is none.
[[nodiscard]] inline std::string text(std::exception_ptr const& thrown) {
  return thrown ? fssdp::detail::what(thrown) : std::string{};
}

}  // namespace support
