// SPDX-License-Identifier: Apache-2.0
/// Calls of MPI: errors are exceptions, handles are closed.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <string>
#include <utility>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

class shared_memory;

/// Options of communicators over MPI; except for `shared`, the same on all ranks of a world.
struct mpi_options {
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  ///< for every wait
  std::size_t most_message_bytes = std::size_t{1} << 30U;         ///< larger ones are sent in parts
  /// The same between nodes. The default is what MPI sends over TCP without asking the receiver
  /// first, as pieces that are passed on cannot wait for that. With RDMA, use more.
  std::size_t most_bytes_between_nodes = 60U << 10U;
  /// Other ranks of the host read data in this memory in place; each rank has its own, or null. It
  /// outlives the world.
  shared_memory const* shared = nullptr;
};

namespace detail {

/// @throws argument_error if the deadline or a size is not positive
[[nodiscard]] inline mpi_options const& mpi_checked(mpi_options const& options) {
  check_deadline("mpi", options.deadline);
  require(options.most_message_bytes > 0 && options.most_message_bytes <= INT_MAX,
          "mpi: messages of at most ", options.most_message_bytes, " bytes; expected 1 to ",
          INT_MAX);
  require(options.most_bytes_between_nodes > 0, "mpi: messages of at most ",
          options.most_bytes_between_nodes, " bytes between nodes; expected 1 or more");
  return options;
}

/// MPI's text for an error code.
[[nodiscard]] inline std::string mpi_text(int code) {
  auto text = std::array<char, MPI_MAX_ERROR_STRING>{};
  auto length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// @throws transport_error with `peer` unless a call of MPI has succeeded
inline void mpi_require(int code, rank_id peer, char const* call) {
  if (code != MPI_SUCCESS)
    throw transport_error{peer, text(call, " with rank ", peer, ": ", mpi_text(code))};
}

/// A communicator of MPI, this rank in it, and the ranks of the world that its ranks are.
struct mpi_group {
  MPI_Comm comm;
  rank_id me;
  group_ranks ranks;
};
/// The same for a peer that is a rank of a group.
inline void mpi_require(int code, mpi_group const& of, rank_id peer, char const* call) {
  if (code != MPI_SUCCESS)
    throw transport_error{of.ranks.world_rank(peer),
                          text(call, " with ", of.ranks.name(peer), ": ", mpi_text(code))};
}

/// Whether MPI is initialized and not finalized.
[[nodiscard]] inline bool mpi_is_running() {
  auto begun = 0;
  auto ended = 0;
  MPI_Initialized(&begun);
  if (begun != 0) MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// A communicator of MPI whose errors are returned: a duplicate, which is freed at the end, or the
/// user's, which gets its own error handler back. Closing it does not communicate.
class mpi_handle {
 public:
  mpi_handle() = default;
  mpi_handle(mpi_handle&& other) noexcept
      : comm_{std::exchange(other.comm_, MPI_COMM_NULL)}, before_{other.before_} {}
  mpi_handle& operator=(mpi_handle&&) = delete;
  ~mpi_handle() { close(); }

  [[nodiscard]] static mpi_handle borrow(MPI_Comm comm) {
    auto handle = mpi_handle{comm};
    MPI_Comm_get_errhandler(comm, &handle.before_);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return handle;
  }
  [[nodiscard]] static mpi_handle adopt(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return mpi_handle{comm};
  }

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  /// Does not free the communicator, as peers have failed and messages may be in flight.
  void abandon() {
    if (before_ == MPI_ERRHANDLER_NULL) comm_ = MPI_COMM_NULL;
    close();
  }
  void close() {
    auto comm = std::exchange(comm_, MPI_COMM_NULL);
    if (comm == MPI_COMM_NULL || !mpi_is_running()) return;
    if (before_ == MPI_ERRHANDLER_NULL) {
      MPI_Comm_free(&comm);
    } else {
      MPI_Comm_set_errhandler(comm, before_);
      MPI_Errhandler_free(&before_);
    }
  }

 private:
  explicit mpi_handle(MPI_Comm comm) : comm_{comm} {}

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;  // the user's, of a borrowed communicator
};

/// Waits until all ranks have entered a nonblocking collective call; between polls, `rest(pace)` is
/// called.
/// @throws deadline_exceeded, which names no rank (-1): MPI does not say which one is missing
template <class Rest>
void mpi_await_all(MPI_Request& request, rank_id me, std::chrono::milliseconds deadline,
                   char const* call, Rest rest) {
  auto pace = wait_pace{};
  auto const until = end_of(deadline);
  for (;;) {
    auto done = 0;
    mpi_require(MPI_Test(&request, &done, MPI_STATUS_IGNORE), me, call);
    if (done != 0) return;
    if (std::chrono::steady_clock::now() > until) throw not_all_come(me, call, deadline);
    rest(pace);
  }
}

/// A barrier, so that the blocking collective calls that follow do not wait. It is done twice: a
/// late rank then does not enter them alone when others have given up.
/// @throws as mpi_await_all, and exceptions of `rest`; `what` is the caller, for errors
template <class Rest>
void mpi_meet(MPI_Comm comm, rank_id me, std::chrono::milliseconds deadline, char const* what,
              Rest rest) {
  for (int turn = 0; turn < 2; ++turn) {
    auto request = MPI_Request{MPI_REQUEST_NULL};
    mpi_require(MPI_Ibarrier(comm, &request), me, what);
    mpi_await_all(request, me, deadline, what, rest);
  }
}
inline void mpi_meet(MPI_Comm comm, std::chrono::milliseconds deadline, char const* what) {
  auto rank = 0;
  MPI_Comm_rank(comm, &rank);
  mpi_meet(comm, rank_id{rank}, deadline, what, [](wait_pace& pace) { pace.rest(); });
}

}  // namespace detail
}  // namespace fssdp
