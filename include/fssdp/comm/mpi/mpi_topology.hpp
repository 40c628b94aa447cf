// SPDX-License-Identifier: Apache-2.0
/// The nodes of the ranks of an MPI communicator.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {
namespace detail {

/// The node of each rank, where `lowest[r]` is the lowest rank on the node of rank r.
[[nodiscard]] inline std::vector<node_id> nodes_by_lowest_rank(std::vector<int> const& lowest) {
  auto nodes = lowest;
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  auto node_of = std::vector<node_id>{};
  for (auto const rank : lowest)
    node_of.emplace_back(std::ranges::lower_bound(nodes, rank) - nodes.begin());
  return node_of;
}

}  // namespace detail

/// The topology of a communicator. Nodes are the ranks that can share memory
/// (MPI_COMM_TYPE_SHARED), numbered by their lowest ranks. MPI does not know bandwidths: the first
/// port, the network and the costs of `like` are used. Collective; to be called once, before all
/// other calls.
/// @throws argument_error as mpi_ref; deadline_exceeded (with rank -1) if not all ranks come;
///         transport_error with MPI's text
[[nodiscard]] inline topology mpi_topology(MPI_Comm comm, topology::shape const& like = {},
                                           mpi_options const& options = {}) {
  auto rank = 0;
  auto size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  auto const me = rank_id{rank};
  auto const borrowed = detail::mpi_handle::borrow(comm);  // so that its errors are returned
  detail::mpi_meet(comm, detail::mpi_checked(options).deadline, "mpi_topology");
  auto node = MPI_Comm{MPI_COMM_NULL};
  detail::mpi_require(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
                      me, "MPI_Comm_split_type");
  auto lowest = rank;
  auto all = std::vector<int>(static_cast<std::size_t>(size));
  auto const spread = MPI_Bcast(&lowest, 1, MPI_INT, 0, node);  // ranks there have the same order
  MPI_Comm_free(&node);
  detail::mpi_require(spread, me, "MPI_Bcast");
  detail::mpi_require(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, comm), me,
                      "MPI_Allgather");
  return topology{detail::nodes_by_lowest_rank(all), {like.ports}, like.network, like.cost};
}

}  // namespace fssdp
