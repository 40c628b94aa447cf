// SPDX-License-Identifier: Apache-2.0
// The baselines of MPI.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/mpi.hpp"
#include "process_team.hpp"
#include "received_sums.hpp"
#include "with_fssdp.hpp"

namespace perf {
namespace {

/// Handles that are freed when the last contestant is gone.
struct handles {
  std::vector<MPI_Comm> comms = {};
  MPI_Datatype expert = MPI_DATATYPE_NULL;
  handles() = default;
  handles(handles const&) = delete;
  handles& operator=(handles const&) = delete;
  ~handles() {
    for (auto& comm : comms) MPI_Comm_free(&comm);
    if (expert != MPI_DATATYPE_NULL) MPI_Type_free(&expert);
  }
};

template <class T>
[[nodiscard]] std::shared_ptr<handles> new_handles(rank_memory<T> const& mine) {
  auto made = std::make_shared<handles>();
  MPI_Type_contiguous(static_cast<int>(mine.elements() * sizeof(T)), MPI_BYTE, &made->expert);
  MPI_Type_commit(&made->expert);
  return made;
}

/// One end of the messages of an MPI_Neighbor_alltoallv: an edge for every transfer, so that
/// nothing has to be packed.
struct edges {
  std::vector<int> peers = {};
  std::vector<int> slots = {};
  std::vector<int> ones = {};
  void add(fssdp::rank_id peer, std::size_t slot) {
    peers.push_back(peer.value());
    slots.push_back(static_cast<int>(slot));
    ones.push_back(1);
  }
  [[nodiscard]] int size() const { return static_cast<int>(peers.size()); }
};

template <class T>
[[nodiscard]] contestant neighbor(rank_memory<T>& mine) {
  auto const& plan = mine.plan();
  auto const me = mine.rank();
  auto const gathers = mine.which() == collective::ag;
  auto in = edges{};
  auto out = edges{};
  auto returned = std::size_t{0};
  for (auto const& t : plan.transfers()) {
    if (t.source == me && gathers) out.add(t.destination, plan.owner_slot(t.chunk));
    if (t.destination == me && gathers)
      in.add(t.source, plan.slot_in(plan.remote(me), t.chunk.expert));
    if (t.source == me && !gathers) in.add(t.destination, returned++);
    if (t.destination == me && !gathers)
      out.add(t.source, plan.slot_in(plan.materialized(me), t.chunk.expert));
  }
  auto const made = new_handles(mine);
  auto& graph = made->comms.emplace_back(MPI_COMM_NULL);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in.size(), in.peers.data(), MPI_UNWEIGHTED,
                                 out.size(), out.peers.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &graph);
  auto const room = std::make_shared<std::vector<T>>(returned * mine.elements());
  return {.name = "neighbor", .on_processes = [made, in, out, room, &mine, gathers] {
            auto* const target = gathers ? mine.to().tensors().front().data : room->data();
            MPI_Neighbor_alltoallv(mine.from().tensors().front().data, out.ones.data(),
                                   out.slots.data(), made->expert, target, in.ones.data(),
                                   in.slots.data(), made->expert, made->comms.front());
            if (gathers) return;
            auto const* next = room->data();
            sum_received(
                mine, [&](fssdp::rank_id) { return std::exchange(next, next + mine.elements()); });
          }};
}

/// The holders of an expert as a communicator; equal sets share one.
struct group {
  fssdp::expert_id expert;
  MPI_Comm comm;
  int root;
};

template <class T>
[[nodiscard]] std::vector<group> make_groups(rank_memory<T> const& mine, handles& made) {
  auto groups = std::vector<group>{};
  auto known = std::map<std::vector<fssdp::rank_id>, MPI_Comm>{};
  auto const& plan = mine.plan();
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(plan.experts())) {
    auto members = std::vector<fssdp::rank_id>{};
    for (auto const rank : plan.where().holders(expert)) members.push_back(rank);
    if (members.size() == 1) continue;
    auto const inside = plan.where().holds(mine.rank(), expert);
    auto const [at, fresh] = known.try_emplace(members, MPI_COMM_NULL);
    if (fresh) {
      MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, 0, &at->second);
      if (inside) made.comms.push_back(at->second);
    }
    auto const root = std::lower_bound(members.begin(), members.end(), plan.owner(expert));
    if (inside) groups.push_back({expert, at->second, static_cast<int>(root - members.begin())});
  }
  return groups;
}

template <class T>
[[nodiscard]] MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  return MPI_DATATYPE_NULL;
}

/// As MPI counts.
[[nodiscard]] int count_of(std::size_t count) { return static_cast<int>(count); }

/// Runs a broadcast or a reduction for each expert that this rank holds with others. Of an array
/// the own block has a place in the result.
template <class T>
void broadcast(rank_memory<T>& mine, std::vector<group> const& groups) {
  if (mine.plan().has_rows())
    for (auto const expert : mine.wanted())
      if (mine.plan().owner(expert) == mine.rank())
        std::ranges::copy(mine.given(expert), mine.taken(expert).begin());
  for (auto const& [expert, comm, root] : groups) {
    auto const owned = mine.plan().owner(expert) == mine.rank();
    auto* const data = owned ? const_cast<T*>(mine.given(expert).data())  // the root only reads
                             : mine.taken(expert).data();
    MPI_Bcast(data, count_of(mine.elements(expert) * sizeof(T)), MPI_BYTE, root, comm);
  }
}
template <class T>
void reduce(rank_memory<T>& mine, MPI_Datatype type, std::vector<group> const& groups) {
  for (auto const& [expert, comm, root] : groups) {
    auto const owned = mine.plan().owner(expert) == mine.rank();
    MPI_Reduce(mine.given(expert).data(), owned ? mine.taken(expert).data() : nullptr,
               count_of(mine.elements(expert)), type, MPI_SUM, root, comm);
  }
  for (auto const expert : mine.wanted())
    if (mine.plan().where().holders(expert).size() == 1)
      std::ranges::copy(mine.given(expert), mine.taken(expert).begin());
}

/// One call for all blocks of an array: MPI_Allgatherv, or MPI_Reduce_scatter.
template <class T>
[[nodiscard]] contestant all_blocks(rank_memory<T>& mine) {
  auto const unit = mine.which() == collective::ag ? sizeof(T) : std::size_t{1};
  auto counts = std::vector<int>{};  // [rank]: bytes or elements
  auto begins = std::vector<int>{};
  for (auto const offset : mine.plan().materialized_offsets(mine.rank()))
    begins.push_back(count_of(offset * unit));
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) counts.push_back(begins[r + 1] - begins[r]);
  return {.name = "mpi-v", .on_processes = [counts, begins, &mine] {
            auto const* const from = mine.from().tensors().front().data;
            auto* const to = mine.to().tensors().front().data;
            if (mine.which() == collective::ag)
              MPI_Allgatherv(from, counts[mine.rank().index()], MPI_BYTE, to, counts.data(),
                             begins.data(), MPI_BYTE, MPI_COMM_WORLD);
            else
              MPI_Reduce_scatter(from, to, counts.data(), mpi_type<T>(), MPI_SUM, MPI_COMM_WORLD);
          }};
}

template <class T>
[[nodiscard]] contestant contestant_on(process_team& team, baseline which, rank_memory<T>& mine) {
  auto const counted = which == baseline::mpi_v
                           ? mine.plan().materialized_offsets(mine.rank()).back()
                           : mine.most_elements();
  if (counted * sizeof(T) > INT32_MAX)
    throw std::invalid_argument{"MPI counts no more than 2 GiB per expert or array"};
  if (which == baseline::mpi_v) return all_blocks(mine);
  auto result = contestant{};
  auto made = std::shared_ptr<handles>{};
  auto groups = std::vector<group>{};
  auto const setup_seconds = team.time([&] {
    if (which == baseline::neighbor) {
      result = neighbor(mine);
    } else {
      result.name = "mpi-broadcast";
      made = std::make_shared<handles>();
      groups = make_groups(mine, *made);
    }
  });
  result.setup_seconds = setup_seconds;
  if (which == baseline::neighbor) return result;
  if (mine.which() == collective::ag)
    result.on_processes = [made, groups, &mine] { broadcast(mine, groups); };
  else
    result.on_processes = [made, groups, &mine, type = mpi_type<T>()] {
      reduce(mine, type, groups);
    };
  return result;
}

}  // namespace

contestant mpi_fssdp(process_team& team, char const* name, measured_plan const& plan,
                     any_rank_memory mine) {
  auto const comm = std::make_shared<fssdp::mpi_communicator>(
      MPI_COMM_WORLD, fssdp::mpi_options{.shared = &team.memory()});
  return mine.visit([&](auto& memory) -> contestant {
    return {.name = name,
            .on_processes = [comm, &plan, &memory] { call_fssdp(*comm, plan, memory); }};
  });
}

contestant mpi_contestant(process_team& team, baseline which, any_rank_memory mine) {
  return mine.visit([&](auto& memory) { return contestant_on(team, which, memory); });
}

}  // namespace perf
