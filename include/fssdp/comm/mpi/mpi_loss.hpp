// SPDX-License-Identifier: Apache-2.0
/// Which processes have ended, if MPI has ULFM.
#pragma once

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace fssdp::detail {

/// What an error code says about other processes.
enum class mpi_loss {
  none,      ///< nothing: it is another error, or this MPI has no ULFM
  ended,     ///< a process has ended
  given_up,  ///< a rank has revoked the communicator, to continue without the lost ranks
};

[[nodiscard]] inline mpi_loss mpi_loss_of([[maybe_unused]] int code) {
#ifdef MPIX_ERR_PROC_FAILED
  auto kind = 0;
  MPI_Error_class(code, &kind);
  if (kind == MPIX_ERR_REVOKED) return mpi_loss::given_up;
  if (kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING) return mpi_loss::ended;
#endif
  return mpi_loss::none;
}

/// The lowest rank of a communicator whose process has ended; -1 if MPI does not know.
[[nodiscard]] inline int mpi_first_ended([[maybe_unused]] MPI_Comm comm) {
  auto rank = -1;
#ifdef MPIX_ERR_PROC_FAILED
  auto all = MPI_Group{MPI_GROUP_NULL};
  auto ended = MPI_Group{MPI_GROUP_NULL};
  auto count = 0;
  auto const first = 0;
  if (MPIX_Comm_failure_ack(comm) == MPI_SUCCESS &&
      MPIX_Comm_failure_get_acked(comm, &ended) == MPI_SUCCESS &&
      MPI_Group_size(ended, &count) == MPI_SUCCESS && count > 0 &&
      MPI_Comm_group(comm, &all) == MPI_SUCCESS)
    MPI_Group_translate_ranks(ended, 1, &first, all, &rank);
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  if (ended != MPI_GROUP_NULL && ended != MPI_GROUP_EMPTY) MPI_Group_free(&ended);
#endif
  return rank;
}

}  // namespace fssdp::detail
