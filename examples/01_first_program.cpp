// SPDX-License-Identifier: Apache-2.0
// The first program: one MoE layer on four ranks, from tokens per expert to updated parameters.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"

namespace {

constexpr auto size = std::size_t{1000};  // parameters of one expert

/// What this rank's gate chose: expert 1 is hot.
fssdp::expert_loads gate_counts(fssdp::rank_id rank) {
  auto counts = fssdp::expert_loads{3, 90, 5, 2, 40, 1, 7, 2};
  counts[2] += static_cast<std::uint64_t>(rank.value());
  return counts;
}

/// The user's forward and backward pass, here: gradient = parameter + 1.
void train(fssdp::held_experts<float const> const& experts, fssdp::expert_buffer<float>& partials) {
  auto const out = partials.tensors().front();
  for (std::size_t i = 0; i < experts.size(); ++i)
    for (std::size_t j = 0; j < size; ++j) out[i][j] = experts[i].tensors.front()[j] + 1;
}

/// The user's optimizer, here: plain descent. It touches what the rank owns.
void descend(fssdp::expert_buffer<float>& weights, fssdp::expert_buffer<float> const& gradients) {
  auto const w = weights.tensors().front();
  auto const g = gradients.tensors().front();
  for (std::size_t slot = 0; slot < w.slots; ++slot)
    for (std::size_t j = 0; j < size; ++j) w[slot][j] -= 0.1F * g[slot][j];
}

void report(fssdp::rank_id rank, fssdp::transfer_plan const& plan,
            fssdp::expert_buffer<float> const& weights) {
  std::printf("rank %d owns %zu experts and held %zu; its first parameter is now %.1f\n",
              rank.value(), plan.owned_count(rank), plan.held(rank).size(),
              static_cast<double>(weights.tensors().front()[0][0]));
}

}  // namespace

int main() {
  fssdp::thread_world{4}.run([](fssdp::communicator auto& comm) {
    auto const rank = comm.rank();
    auto const layout = fssdp::block_layout{{.experts = 8, .ranks = comm.size()}};
    auto const loads = fssdp::sum_loads(comm, gate_counts(rank));  // tokens per expert, all ranks
    auto const solve = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2};
    auto const where = solve(loads, layout);            // placement: who holds what
    auto const plan = fssdp::make_plan(layout, where);  // pure: equal on every rank

    auto weights = fssdp::make_shard<float>(layout, rank, size);    // [owned, size]
    auto replicas = fssdp::make_replicas<float>(plan, rank, size);  // [foreign, size]
    auto partials = fssdp::make_partials<float>(plan, rank, size);  // [held, size]
    auto gradients = fssdp::make_shard<float>(layout, rank, size);  // [owned, size]

    fssdp::sparse_all_gather(comm, plan, weights, replicas);        // owners -> replicas
    train(fssdp::held(plan, rank, weights, replicas), partials);    // your forward and backward
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);  // replicas -> owners
    descend(weights, gradients);                                    // your optimizer: what it owns

    report(rank, plan, weights);
  });
}
