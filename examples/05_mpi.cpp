// SPDX-License-Identifier: Apache-2.0
// The first program between processes: one include and one line differ. mpirun -np 4 ./05_mpi
// (or fewer than 4, or up to 8: then each has an expert)
#include <cstdio>

#include "fssdp/comm/mpi.hpp"
#include "fssdp/fssdp.hpp"

int main() {
  constexpr auto size = std::size_t{1000};  // parameters of one expert
  fssdp::mpi_world{}.run([](fssdp::communicator auto& comm) {
    auto const rank = comm.rank();
    auto const counted = fssdp::expert_loads{3, 90, 5, 2, 40, 1, 7, 2};  // tokens per expert, here
    auto const layout = fssdp::block_layout{{.experts = 8, .ranks = comm.size()}};
    auto const loads = fssdp::sum_loads(comm, counted);  // of all ranks
    auto const solve = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2};
    auto const where = solve(loads, layout);            // placement: who holds what
    auto const plan = fssdp::make_plan(layout, where);  // pure: equal on every rank

    auto weights = fssdp::make_shard<float>(layout, rank, size);    // [owned, size]
    auto replicas = fssdp::make_replicas<float>(plan, rank, size);  // [remote, size]
    auto partials = fssdp::make_partials<float>(plan, rank, size);  // [materialized, size]
    auto gradients = fssdp::make_shard<float>(layout, rank, size);  // [owned, size]

    fssdp::sparse_all_gather(comm, plan, weights, replicas);  // owners -> replicas
    auto const experts = fssdp::view_experts(plan, rank, weights, replicas);
    for (std::size_t e = 0; e < experts.size(); ++e)  // your forward and backward
      for (std::size_t i = 0; i < size; ++i)
        partials.tensors()[0][e][i] = experts[e].tensors[0][i] + 1;
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);  // replicas -> owners
    for (std::size_t slot = 0; slot < weights.slots(); ++slot)      // your optimizer: what it owns
      for (std::size_t i = 0; i < size; ++i)
        weights.tensors()[0][slot][i] -= 0.1F * gradients.tensors()[0][slot][i];

    std::printf("rank %d owns %zu experts, held %zu; its first parameter is now %.1f\n",
                rank.value(), plan.owned_count(rank), plan.materialized(rank).size(),
                static_cast<double>(weights.tensors()[0][0][0]));
  });
}
