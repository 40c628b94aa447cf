// SPDX-License-Identifier: Apache-2.0
/// Ranks that are processes, over MPI: Open MPI, MPICH.
#pragma once

#include <mpi.h>

#include <csignal>
#include <exception>
#include <type_traits>
#include <utility>

#include "fssdp/comm/mpi/mpi_communicator.hpp"
#include "fssdp/comm/mpi/mpi_topology.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

/// Runs a function on this rank of an MPI program:
///
///     fssdp::mpi_world{}.run([](fssdp::communicator auto& comm) { ... });
///
/// Initializes MPI if the program has not, for streams with their own threads
/// (MPI_THREAD_SERIALIZED), and finalizes it if it has initialized it: once per process, as MPI
/// requires. SIGPIPE, which the death of a peer may raise, is then ignored, unless the program has
/// its own handler.
class mpi_world {
 public:
  /// @throws argument_error if MPI has been finalized
  explicit mpi_world(mpi_options const& options = {}) : options_{options} {
    auto begun = 0;
    MPI_Initialized(&begun);
    detail::require(begun == 0 || detail::mpi_is_running(),
                    "mpi_world: MPI has been finalized; expected one mpi_world in a process, or "
                    "MPI_Init ahead of them all");
    if (begun != 0) return;
    auto provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // for MPICH, see mpi_ref
    finalizes_ = true;
    outlive_peers();
  }
  mpi_world(mpi_world const&) = delete;
  mpi_world& operator=(mpi_world const&) = delete;
  /// Does not finalize MPI if ranks are missing or were lost, as that may wait for them, with ULFM,
  /// too: the process ends without it. mpirun may report that.
  ~mpi_world() {
    if (finalizes_ && !lost_ && detail::mpi_is_running()) MPI_Finalize();
  }

  /// The mpi_topology of all ranks. Collective.
  /// @throws as mpi_topology
  [[nodiscard]] topology topo(topology::shape const& like = {}) {
    return unless_ranks_are_missing([&] { return mpi_topology(MPI_COMM_WORLD, like, options_); });
  }

  /// Calls `rank_main(comm)` on this rank, and waits until all ranks have returned from theirs.
  ///
  /// If rank_main throws on a rank, the current or next exchange of every other rank throws a
  /// peer_failed that names it. If it returns while other ranks still wait for it, these get the
  /// peer_failed at once.
  /// @pre when rank_main returns, its work on streams has run
  /// @throws the exception of rank_main on this rank; peer_failed if rank_main has thrown on
  ///         another rank only; deadline_exceeded if a missing rank was not noticed by any
  ///         exchange, or (with rank -1) if a rank does not finish in time
  template <class Main>
  void run(Main&& rank_main) {
    run_in(MPI_COMM_WORLD, std::forward<Main>(rank_main));
  }
  /// The same between the ranks of `of`, all of which call it.
  template <class Main>
  void run_in(MPI_Comm of, Main&& rank_main) {
    detail::require(!lost_, "mpi_world: ranks are missing since the last run");
    auto comm = unless_ranks_are_missing([&] { return mpi_communicator{of, options_}; });
    auto thrown = std::exception_ptr{};
    try {
      rank_main(comm);
    } catch (...) {
      thrown = std::current_exception();
    }
    try {
      comm.leave(thrown);
    } catch (deadline_exceeded const&) {
      lost_ = true;
      if (thrown == nullptr) throw;
    }
    if (comm.is_replaced()) lost_ = true;
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }

 private:
  template <class Meet>
  std::invoke_result_t<Meet&> unless_ranks_are_missing(Meet meet) {
    try {
      return meet();
    } catch (deadline_exceeded const&) {
      lost_ = true;
      throw;
    }
  }
  /// Open MPI writes to connections whose other end has died, which would end this process by
  /// default.
  static void outlive_peers() {
#ifdef SIGPIPE
    auto const before = std::signal(SIGPIPE, SIG_IGN);
    if (before != SIG_DFL && before != SIG_ERR) std::signal(SIGPIPE, before);
#endif
  }

  mpi_options options_;
  bool finalizes_ = false;
  bool lost_ = false;
};

}  // namespace fssdp
