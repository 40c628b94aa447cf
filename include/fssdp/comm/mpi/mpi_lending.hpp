// SPDX-License-Identifier: Apache-2.0
/// Ranks of one host that read one another's memory in place.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/shared_memory.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Which rank can read which rank's memory.
class mpi_lending {
 public:
  mpi_lending() = default;

  /// Opens the memory of all other ranks of the host where possible. Collective between them.
  /// @param here their communicator
  /// @param neighbors [ranks of it]: the ranks of the world
  /// @param ranks of the world
  /// @param own the memory that others may read; may be null
  mpi_lending(MPI_Comm here, std::span<rank_id const> neighbors, int ranks,
              shared_memory const* own)
      : own_{own}, readers_(static_cast<std::size_t>(ranks)), views_(readers_.size()) {
    auto me = 0;
    MPI_Comm_rank(here, &me);
    auto const name = own == nullptr ? shared_memory_name{} : own->name();
    auto names = std::vector<shared_memory_name>(neighbors.size());
    auto const bytes = static_cast<int>(sizeof name);
    mpi_require(MPI_Allgather(&name, bytes, MPI_BYTE, names.data(), bytes, MPI_BYTE, here),
                neighbors[static_cast<std::size_t>(me)], "MPI_Allgather");
    auto reads = std::vector<std::uint8_t>(names.size());
    auto is_read = reads;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == static_cast<std::size_t>(me)) continue;
      auto& view = views_[neighbors[i].index()];
      view = open_shared_memory(names[i]);
      reads[i] = view.bytes().empty() ? 0 : 1;
    }
    mpi_require(MPI_Alltoall(reads.data(), 1, MPI_BYTE, is_read.data(), 1, MPI_BYTE, here),
                neighbors[static_cast<std::size_t>(me)], "MPI_Alltoall");
    for (std::size_t i = 0; i < names.size(); ++i) readers_[neighbors[i].index()] = is_read[i];
  }

  /// Whether this rank can read the memory of another one.
  [[nodiscard]] bool reads(rank_id from) const { return !views_[from.index()].bytes().empty(); }
  /// The offset of these bytes for a rank that is to read them; empty if it cannot.
  [[nodiscard]] std::optional<std::uint64_t> place(std::span<std::byte const> bytes,
                                                   rank_id to) const {
    if (readers_[to.index()] == 0) return {};
    return own_->offset_of(bytes);
  }
  /// The bytes at an offset that another rank has sent.
  /// @throws transport_error with that rank if they are outside of its memory
  [[nodiscard]] std::byte const* at(rank_id from, std::uint64_t offset, std::size_t bytes) const {
    auto const all = views_[from.index()].bytes();
    if (offset > all.size() || bytes > all.size() - offset)
      throw transport_error{from, text("rank ", from, " lends ", bytes, " bytes at ", offset,
                                       " of its memory, which has ", all.size())};
    return all.data() + offset;
  }

 private:
  shared_memory const* own_ = nullptr;
  std::vector<std::uint8_t> readers_;  // [ranks]: whether each can read this rank's memory
  std::vector<mapped_pages> views_;    // [ranks]: empty if the memory cannot be read
};

}  // namespace fssdp::detail
