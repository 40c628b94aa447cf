// SPDX-License-Identifier: Apache-2.0
/// How a communicator makes another one: a duplicate, or a group.
#pragma once

#include <mpi.h>

#include "fssdp/comm/group.hpp"
#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Calls meet(rest), which waits until all ranks have come and calls `rest(pace)` meanwhile, which
/// releases the lock and receives notices. If a rank does not come, other communicators are told.
template <class Meet>
void mpi_meet_by_notice(mpi_monitor& monitor, mpi_monitor::lock_type& lock, Meet meet) {
  try {
    meet([&](wait_pace& pace) {
      monitor.listen();
      monitor.check();
      auto const open = mpi_unlocked{lock};
      pace.rest();
    });
  } catch (deadline_exceeded const& error) {
    monitor.fail(error.failed_rank(), error.what());
    throw;
  }
}

/// A duplicate of a communicator, made when all ranks have asked for it. Collective.
/// @param monitor null for the first communicator of a world
/// @throws deadline_exceeded, which names no rank (-1), if some do not come within the deadline
[[nodiscard]] inline mpi_handle mpi_duplicate(MPI_Comm of, mpi_options const& options,
                                              mpi_monitor* monitor) {
  auto lock = monitor != nullptr ? monitor->lock() : mpi_monitor::lock_type{};
  auto const borrowed = mpi_handle::borrow(of);  // so that its errors are returned
  auto made = MPI_Comm{MPI_COMM_NULL};
  auto request = MPI_Request{MPI_REQUEST_NULL};
  auto rank = 0;
  MPI_Comm_rank(of, &rank);
  auto const me = monitor != nullptr ? monitor->rank() : rank_id{rank};
  mpi_require(MPI_Comm_idup(of, &made, &request), me, "MPI_Comm_idup");
  auto const meet = [&](auto rest) {
    mpi_await_all(request, me, options.deadline, "MPI_Comm_idup", rest);
  };
  if (monitor != nullptr)
    mpi_meet_by_notice(*monitor, lock, meet);
  else
    meet([](wait_pace& pace) { pace.rest(); });
  return mpi_handle::adopt(made);
}

/// The communicator between the ranks of the same color, made when all ranks of `of` have called
/// it; empty for no_color. Collective. MPI's call blocks, so ranks meet before it.
/// @throws as mpi_duplicate
[[nodiscard]] inline mpi_handle mpi_split(MPI_Comm of, int color, int key, mpi_monitor& monitor) {
  auto lock = monitor.lock();
  mpi_meet_by_notice(monitor, lock, [&](auto rest) {
    mpi_meet(of, monitor.rank(), monitor.options().deadline, "MPI_Comm_split", rest);
  });
  auto made = MPI_Comm{MPI_COMM_NULL};
  mpi_require(MPI_Comm_split(of, color == no_color ? MPI_UNDEFINED : color, key, &made),
              monitor.rank(), "MPI_Comm_split");
  return made == MPI_COMM_NULL ? mpi_handle{} : mpi_handle::adopt(made);
}

}  // namespace fssdp::detail
