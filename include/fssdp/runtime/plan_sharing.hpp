// SPDX-License-Identifier: Apache-2.0
/// Divides planning among ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Decides which rank plans which layer, and sends the results to all ranks.
class plan_sharing {
 public:
  /// @pre nothing else uses the communicator
  plan_sharing(communicator_ref const& comm, topology const& topo) : comm_{comm}, topology_{topo} {}

  /// Whether this rank plans the n-th of `layers` layers. Ranks take turns; consecutive layers go
  /// to different hosts, so that hosts share the work.
  /// @param what a hash of what is planned
  [[nodiscard]] bool is_mine(std::size_t n, std::size_t layers, std::uint64_t what) const {
    auto const ranks = static_cast<std::size_t>(comm_.size());
    return (n * ranks / layers + what % ranks) % ranks == comm_.rank().index();
  }

  /// Sends every rank's bytes to all ranks.
  /// @param what a hash of what is planned: equal on all ranks
  /// @param failure the exception if this rank has failed to plan, else null
  /// @return [ranks]; the entry of this rank is empty
  /// @cost an exchange of byte counts; then a sparse all-gather to all ranks
  /// @throws on all ranks if one has failed: there its exception, elsewhere peer_failed. If `what`
  ///         differs: ranks_disagree, or peer_failed with its text on ranks that receive another
  ///         rank's error first. Transport errors
  [[nodiscard]] std::vector<std::vector<std::byte>> exchange(
      std::uint64_t what, std::span<std::byte const> mine,
      std::exception_ptr const& failure) const {
    auto const reason = failure == nullptr ? std::string{} : fssdp::detail::what(failure);
    auto const sent = failure == nullptr ? mine : std::as_bytes(std::span{reason});
    auto announced = std::vector<announcement>(static_cast<std::size_t>(comm_.size()));
    auto const announcing = announcement{what, sent.size(), failure == nullptr ? 0U : 1U};
    comm_.gather_values(std::as_bytes(std::span{&announcing, 1}),
                        std::as_writable_bytes(std::span{announced}));
    check(announced, what);
    auto result = gather(announced, sent);
    if (failure != nullptr) std::rethrow_exception(failure);
    for (auto const rank : first_n<rank_id>(comm_.size())) {
      if (announced[rank.index()].has_failed == 0) continue;
      auto const& bytes = result[rank.index()];
      throw peer_failed{
          rank, text("materializer: rank ", rank, " could not make its share of the plans: ",
                     std::string(reinterpret_cast<char const*>(bytes.data()), bytes.size()))};
    }
    return result;
  }

 private:
  struct announcement {
    std::uint64_t what;
    std::uint64_t bytes;
    std::uint64_t has_failed;
  };

  void check(std::span<announcement const> announced, std::uint64_t what) const {
    for (auto const rank : first_n<rank_id>(comm_.size()))
      if (announced[rank.index()].what != what)
        throw ranks_disagree{
            rank, text("materializer: rank ", rank, " plans other layers than rank ", comm_.rank(),
                       ", or has recorded other loads; expected the same on all ranks")};
  }
  /// Gathers the bytes as one chunk for each rank that has any; all chunks have the largest size.
  [[nodiscard]] std::vector<std::vector<std::byte>> gather(std::span<announcement const> announced,
                                                           std::span<std::byte const> mine) const {
    auto result = std::vector<std::vector<std::byte>>(announced.size());
    auto senders = std::vector<rank_id>{};
    auto longest = std::size_t{0};
    for (auto const rank : first_n<rank_id>(comm_.size())) {
      if (announced[rank.index()].bytes != 0) senders.push_back(rank);
      longest = std::max(longest, static_cast<std::size_t>(announced[rank.index()].bytes));
    }
    if (senders.empty()) return result;
    auto const layout = table_layout{{.ranks = comm_.size()}, senders};
    auto const plan = make_plan(layout, everywhere{}(layout), topology_);
    auto from = std::vector<std::byte>{};
    if (!mine.empty()) {
      from.resize(longest);
      std::ranges::copy(mine, from.begin());
    }
    auto const others = senders.size() - (mine.empty() ? 0 : 1);
    auto to = std::vector<std::byte>(others * longest);
    auto comm = comm_;
    sparse_all_gather(comm, plan,
                      expert_tensor<std::byte const>{from.data(), mine.empty() ? 0U : 1U, longest},
                      expert_tensor<std::byte>{to.data(), others, longest});
    auto at = to.begin();
    for (auto const rank : senders) {
      if (rank == comm_.rank()) continue;
      auto const bytes = static_cast<std::ptrdiff_t>(announced[rank.index()].bytes);
      result[rank.index()].assign(at, at + bytes);
      at += static_cast<std::ptrdiff_t>(longest);
    }
    return result;
  }

  communicator_ref comm_;
  topology topology_;
};

}  // namespace fssdp::detail
