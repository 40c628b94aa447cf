// SPDX-License-Identifier: Apache-2.0
/// An MPI communicator between the remaining ranks when some are lost, if MPI has ULFM.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fssdp/comm/lost_ranks.hpp"
#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_loss.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

#ifdef MPIX_ERR_PROC_FAILED
/// Waits until all living ranks have come. To be called before MPIX_Comm_shrink, which cannot be
/// cancelled, and counts unreachable ranks as alive.
/// @throws deadline_exceeded, which names no rank (-1)
inline void mpi_await_living(MPI_Comm of, rank_id me, std::chrono::milliseconds deadline) {
  auto all = std::make_unique<int>(1);
  auto request = MPI_Request{MPI_REQUEST_NULL};
  mpi_require(MPIX_Comm_iagree(of, all.get(), &request), me, "MPIX_Comm_iagree");
  auto pace = wait_pace{};
  auto const until = end_of(deadline);
  for (auto done = 0; done == 0; pace.rest()) {
    // an error means that some ranks have failed, which is known
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (done == 0 && std::chrono::steady_clock::now() > until) {
      (void)all.release();  // leaked, as MPI may still write to it
      throw not_all_come(me, "find_lost", deadline);
    }
  }
}
/// A communicator between all living ranks. Collective among them.
/// @pre called with the lock of its monitor
/// @throws deadline_exceeded, which names no rank (-1), if some do not come
[[nodiscard]] inline mpi_handle mpi_alive(MPI_Comm of, rank_id me,
                                          std::chrono::milliseconds deadline) {
  auto made = MPI_Comm{MPI_COMM_NULL};
  MPIX_Comm_revoke(of);  // so that ranks that wait for lost ones come, too
  mpi_await_living(of, me, deadline);
  mpi_require(MPIX_Comm_shrink(of, &made), me, "MPIX_Comm_shrink");
  return mpi_handle::adopt(made);
}
/// The ranks of a communicator that are not in another one, ascending.
[[nodiscard]] inline std::vector<rank_id> mpi_missing(MPI_Comm of, MPI_Comm alive, rank_id me) {
  auto all = MPI_Group{MPI_GROUP_NULL};
  auto left = MPI_Group{MPI_GROUP_NULL};
  mpi_require(MPI_Comm_group(of, &all), me, "MPI_Comm_group");
  mpi_require(MPI_Comm_group(alive, &left), me, "MPI_Comm_group");
  auto size = 0;
  MPI_Comm_size(of, &size);
  auto numbers = std::vector<int>(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  auto there = numbers;
  auto const code = MPI_Group_translate_ranks(all, size, numbers.data(), left, there.data());
  MPI_Group_free(&all);
  MPI_Group_free(&left);
  mpi_require(code, me, "MPI_Group_translate_ranks");
  auto missing = std::vector<rank_id>{};
  for (std::size_t rank = 0; rank < there.size(); ++rank)
    if (there[rank] == MPI_UNDEFINED) missing.emplace_back(rank);
  return missing;
}

/// @throws transport_error
[[nodiscard]] inline std::vector<rank_id> mpi_find_lost(MPI_Comm of, mpi_monitor& monitor) {
  auto const lock = monitor.lock();
  auto const alive = mpi_alive(of, monitor.rank(), monitor.options().deadline);
  return mpi_missing(of, alive.comm(), monitor.rank());
}
/// @param lost ascending
/// @throws peer_failed if the living ranks are not the expected remaining ones
[[nodiscard]] inline mpi_handle mpi_shrunk(MPI_Comm of, std::span<rank_id const> lost,
                                           mpi_monitor& monitor) {
  auto const lock = monitor.lock();
  auto alive = mpi_alive(of, monitor.rank(), monitor.options().deadline);
  auto const missing = mpi_missing(of, alive.comm(), monitor.rank());
  if (!std::ranges::equal(missing, lost))
    throw peer_failed{missing.empty() ? rank_id{-1} : missing.back(),
                      text("without: ", missing.size(), " ranks have failed; expected the ",
                           lost.size(), " that are named: find them again")};
  return alive;
}
#else
/// @throws argument_error
[[noreturn]] inline void refuse_without_ulfm(char const* call) {
  auto name = std::array<char, MPI_MAX_LIBRARY_VERSION_STRING>{};
  auto length = 0;
  MPI_Get_library_version(name.data(), &length);
  auto const whole = std::string_view{name.data(), static_cast<std::size_t>(length)};
  refuse({call, ": this MPI (", whole.substr(0, whole.find_first_of(",\n")),
          ") has no ULFM, MPIX_Comm_shrink, so a run whose ranks are lost cannot go on; expected "
          "that it begins again from its last checkpoint, with the ranks that are left"});
}
[[noreturn]] inline std::vector<rank_id> mpi_find_lost(MPI_Comm, mpi_monitor&) {
  refuse_without_ulfm("find_lost");
}
[[noreturn]] inline mpi_handle mpi_shrunk(MPI_Comm, std::span<rank_id const>, mpi_monitor&) {
  refuse_without_ulfm("without");
}
#endif

}  // namespace fssdp::detail
