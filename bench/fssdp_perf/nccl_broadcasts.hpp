// SPDX-License-Identifier: Apache-2.0
/// One ncclBroadcast or ncclReduce per expert over those that hold it, expert after expert.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "contestant.hpp"
#include "device_memory.hpp"
#include "fssdp/comm/nccl.hpp"

namespace perf {

namespace detail {

struct destroy_group {
  void operator()(ncclComm_t comm) const { ncclCommDestroy(comm); }
};
using nccl_group = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, destroy_group>;

/// An expert that a rank holds with others, and what joins them.
struct group_call {
  fssdp::expert_id expert;
  ncclComm_t group;
  int root;
};
/// What one rank calls, in the order that all ranks have in common.
struct group_calls {
  std::vector<nccl_group> groups;
  std::vector<group_call> calls;
};

/// The sets of ranks that hold an expert together, each once.
using holder_sets = std::map<std::vector<fssdp::rank_id>, ncclUniqueId>;
[[nodiscard]] inline std::vector<fssdp::rank_id> holders_of(fssdp::transfer_plan const& plan,
                                                            fssdp::expert_id expert) {
  auto const all = plan.where().holders(expert);
  return {all.begin(), all.end()};
}
[[nodiscard]] inline holder_sets sets_of(fssdp::transfer_plan const& plan) {
  auto sets = holder_sets{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(plan.experts())) {
    auto const holders = holders_of(plan, expert);
    if (holders.size() == 1) continue;
    auto const [at, is_new] = sets.try_emplace(holders);
    if (is_new) fssdp::detail::nccl_require(ncclGetUniqueId(&at->second), {}, "ncclGetUniqueId");
  }
  return sets;
}

/// Called on all ranks at once, each in a thread.
[[nodiscard]] inline group_calls join_groups(fssdp::transfer_plan const& plan,
                                             holder_sets const& sets, fssdp::rank_id me,
                                             int device) {
  fssdp::detail::cuda_require(cudaSetDevice(device), me, "cudaSetDevice");
  auto mine = group_calls{};
  auto joined = std::map<std::vector<fssdp::rank_id>, ncclComm_t>{};
  auto const place = [](std::vector<fssdp::rank_id> const& in, fssdp::rank_id rank) {
    return static_cast<int>(std::ranges::find(in, rank) - in.begin());
  };
  for (auto const& [holders, id] : sets) {
    if (std::ranges::count(holders, me) == 0) continue;
    auto config = ncclConfig_t NCCL_CONFIG_INITIALIZER;
    auto comm = ncclComm_t{};
    fssdp::detail::nccl_require(ncclCommInitRankConfig(&comm, static_cast<int>(holders.size()), id,
                                                       place(holders, me), &config),
                                me, "ncclCommInitRankConfig");
    mine.groups.emplace_back(comm);
    joined[holders] = comm;
  }
  for (auto const expert : plan.materialized(me)) {
    auto const holders = holders_of(plan, expert);
    if (holders.size() > 1)
      mine.calls.push_back({expert, joined.at(holders), place(holders, plan.owner(expert))});
  }
  return mine;
}

/// What NCCL sums on every device; for other types none, which it refuses.
template <class T>
[[nodiscard]] constexpr ncclDataType_t nccl_type() {
  if constexpr (std::is_same_v<T, float>) return ncclFloat32;
  if constexpr (std::is_same_v<T, double>) return ncclFloat64;
  if constexpr (std::is_same_v<T, fssdp::bf16>) return ncclBfloat16;
  if constexpr (std::is_same_v<T, fssdp::fp16>) return ncclFloat16;
  return ncclNumTypes;
}

template <class T>
void broadcast(fssdp::nccl_communicator& comm, device_memory<T>& mine, group_calls const& of) {
  for (auto const expert : mine.wanted())  // of an array also the own block
    if (mine.plan().owner(expert) == mine.rank())
      comm.copy(std::as_writable_bytes(mine.taken(expert)), std::as_bytes(mine.given(expert)));
  for (auto const& [expert, group, root] : of.calls) {
    auto const owned = mine.plan().owner(expert) == mine.rank();
    auto* const data = owned ? const_cast<T*>(mine.given(expert).data())  // the root only reads
                             : mine.taken(expert).data();
    fssdp::detail::nccl_require(ncclBroadcast(data, data, mine.elements(expert) * sizeof(T),
                                              ncclInt8, root, group, comm.stream()),
                                mine.rank(), "ncclBroadcast");
  }
}
template <class T>
void reduce(fssdp::nccl_communicator& comm, device_memory<T>& mine, group_calls const& of) {
  for (auto const& [expert, group, root] : of.calls) {
    auto const owned = mine.plan().owner(expert) == mine.rank();
    fssdp::detail::nccl_require(
        ncclReduce(mine.given(expert).data(), owned ? mine.taken(expert).data() : nullptr,
                   mine.elements(expert), nccl_type<T>(), ncclSum, root, group, comm.stream()),
        mine.rank(), "ncclReduce");
  }
  for (auto const expert : mine.wanted())
    if (mine.plan().where().holders(expert).size() == 1)
      comm.copy(std::as_writable_bytes(mine.taken(expert)), std::as_bytes(mine.given(expert)));
}

}  // namespace detail

/// A communicator for each set of ranks that hold an expert together is made here, and counted as
/// setup.
/// @param of [rank], a device for each
template <class T>
[[nodiscard]] basic_contestant<fssdp::nccl_communicator> nccl_broadcasts(
    std::deque<device_memory<T>>& of) {
  using clock = std::chrono::steady_clock;
  auto const begin = clock::now();
  auto const& plan = of.front().plan();
  auto const sets = detail::sets_of(plan);
  auto joining = std::vector<std::future<detail::group_calls>>{};
  for (auto const& mine : of)
    joining.push_back(std::async(std::launch::async, [&] {
      return detail::join_groups(plan, sets, mine.rank(), mine.device());
    }));
  auto const ranks = std::make_shared<std::vector<detail::group_calls>>();
  for (auto& one : joining) ranks->push_back(one.get());
  auto const seconds = std::chrono::duration<double>{clock::now() - begin}.count();
  return {.name = "broadcast",
          .on_threads =
              [ranks, &of](fssdp::nccl_communicator& comm) {
                auto const me = comm.rank().index();
                if (of[me].which() == collective::ag)
                  detail::broadcast(comm, of[me], (*ranks)[me]);
                else
                  detail::reduce(comm, of[me], (*ranks)[me]);
              },
          .setup_seconds = seconds};
}

}  // namespace perf
