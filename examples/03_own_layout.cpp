// SPDX-License-Identifier: Apache-2.0
// A layout of your own: ranks with more memory own more experts. Anything that models
// fssdp::shard_layout goes through solvers, plans and collectives like the library's own.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"
#include "program/standard_output.hpp"

namespace {

using fssdp::chunk_id;
using fssdp::expert_id;
using fssdp::rank_id;

/// Consecutive experts share an owner, as many as its memory allows: rank r owns `share[r]`.
class proportional_layout {
 public:
  proportional_layout() : proportional_layout{{1}} {}
  explicit proportional_layout(std::vector<int> share) : first_{0} {
    std::partial_sum(share.begin(), share.end(), std::back_inserter(first_));
  }

  [[nodiscard]] int experts() const { return first_.back(); }
  [[nodiscard]] int slices() const { return 1; }  // experts are whole
  [[nodiscard]] int ranks() const { return static_cast<int>(first_.size()) - 1; }

  [[nodiscard]] rank_id owner(chunk_id chunk) const {
    auto const behind = std::ranges::upper_bound(first_, chunk.expert.value());
    return rank_id{behind - first_.begin() - 1};
  }
  [[nodiscard]] int slot(chunk_id chunk) const {
    return chunk.expert.value() - first_[owner(chunk).index()];
  }
  [[nodiscard]] fssdp::index_range<expert_id> owned(rank_id rank) const {
    return {expert_id{first_[rank.index()]}, expert_id{first_[rank.index() + 1]}};
  }

  bool operator==(proportional_layout const&) const = default;

 private:
  std::vector<int> first_;  // [ranks + 1]: where each rank's experts begin
};

static_assert(fssdp::shard_layout<proportional_layout>);

/// What rank r owns and holds, as a line of letters: O owned, r replica, - not there.
std::string row(fssdp::transfer_plan const& plan, rank_id rank) {
  auto letters = std::string{};
  for (auto const expert : fssdp::first_n<expert_id>(plan.experts()))
    letters += plan.owner(expert) == rank ? " O" : plan.where().holds(rank, expert) ? " r" : " -";
  return letters;
}

}  // namespace

int main() {
  auto const layout = proportional_layout{{6, 3, 2, 1}};  // the first rank has most memory
  fssdp::check_layout(layout);                            // throws if the law is broken
  auto const loads = fssdp::expert_loads{70, 5, 5, 5, 5, 5, 5, 40, 5, 5, 5, 5};
  auto const where = fssdp::sparse_materialization{.overlap = 2, .spare_slots = 2}(loads, layout);
  auto const plan = fssdp::make_plan(layout, where);

  constexpr auto elements = std::size_t{1000};
  auto wrong = std::vector<int>(static_cast<std::size_t>(layout.ranks()));
  fssdp::thread_world{layout.ranks()}.run([&](fssdp::communicator auto& comm) {
    auto const me = comm.rank();
    auto weights = fssdp::make_shard<float>(layout, me, elements);
    auto replicas = fssdp::make_replicas<float>(plan, me, elements);
    for (auto const expert : layout.owned(me))
      std::ranges::fill(weights.tensors()[0][plan.owner_slot(expert)],
                        static_cast<float>(expert.value()));
    fssdp::sparse_all_gather(comm, plan, weights, replicas);
    auto const experts = fssdp::view_experts(plan, me, weights, replicas);
    for (std::size_t i = 0; i < experts.size(); ++i)
      for (std::size_t j = 0; j < elements; ++j)
        wrong[me.index()] +=
            experts[i].tensors[0][j] != static_cast<float>(experts[i].id.value()) ? 1 : 0;
  });

  std::printf("rank  owns  %-*s  memory beside the shard\n", 2 * layout.experts() - 1,
              "holds (O owned, r replica)");
  for (auto const rank : fssdp::first_n<rank_id>(layout.ranks()))
    std::printf("%4d  %4zu %s  %zu bytes\n", rank.value(), plan.owned_count(rank),
                row(plan, rank).c_str(),
                fssdp::memory_required<float>(plan, rank, elements).total());
  auto const all = std::accumulate(wrong.begin(), wrong.end(), 0);
  std::printf("%d elements are not what their owners have\n", all);
  return program::output_was_taken("03_own_layout") && all == 0 ? 0 : 1;
}
