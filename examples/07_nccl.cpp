// SPDX-License-Identifier: Apache-2.0
// The first program between devices, one rank for each device of this process (up to 8: then each
// has an expert). It differs in the include, in the line that runs it, in buffers that are mirrored
// on the device, and in copies to the host, which computes.
#include <cstdio>
#include <utility>

#include "fssdp/comm/cuda/cuda_mirror.hpp"
#include "fssdp/comm/nccl.hpp"
#include "fssdp/fssdp.hpp"

fssdp::device_kernels kernels();  // 07_nccl/kernels.cu, as this file needs no nvcc

int main() {
  constexpr auto size = std::size_t{1000};  // parameters of one expert
  fssdp::nccl_world{{.kernels = kernels()}}.run([](fssdp::communicator auto& comm) {
    auto const rank = comm.rank();
    auto const counted = fssdp::expert_loads{3, 90, 5, 2, 40, 1, 7, 2};  // tokens per expert, here
    auto const layout = fssdp::block_layout{{.experts = 8, .ranks = comm.size()}};
    auto const loads = fssdp::sum_loads(comm, counted);  // of all ranks
    auto const solve = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2};
    auto const where = solve(loads, layout);            // placement: who holds what
    auto const plan = fssdp::make_plan(layout, where);  // pure: equal on every rank

    auto const mirrored = [&](auto buffer) {
      return fssdp::cuda_mirror{std::move(buffer), comm.stream()};
    };
    auto weights = mirrored(fssdp::make_shard<float>(layout, rank, size));    // [owned, size]
    auto replicas = mirrored(fssdp::make_replicas<float>(plan, rank, size));  // [remote, size]
    auto partials =
        mirrored(fssdp::make_partials<float>(plan, rank, size));  // [materialized, size]
    auto gradients = mirrored(fssdp::make_shard<float>(layout, rank, size));  // [owned, size]

    fssdp::sparse_all_gather(comm, plan, weights, replicas);  // owners -> replicas
    comm.synchronize();
    replicas.synchronize_to_host();
    auto const experts = fssdp::view_experts(plan, rank, weights.host(), replicas.host());
    for (std::size_t e = 0; e < experts.size(); ++e)  // your forward and backward
      for (std::size_t i = 0; i < size; ++i)
        partials.host().tensors()[0][e][i] = experts[e].tensors[0][i] + 1;
    partials.copy_to_device();
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);  // replicas -> owners
    comm.synchronize();
    gradients.synchronize_to_host();
    for (std::size_t slot = 0; slot < weights.host().slots();
         ++slot)  // your optimizer: what it owns
      for (std::size_t i = 0; i < size; ++i)
        weights.host().tensors()[0][slot][i] -= 0.1F * gradients.host().tensors()[0][slot][i];
    weights.copy_to_device();

    std::printf("rank %d owns %zu experts, held %zu; its first parameter is now %.1f\n",
                rank.value(), plan.owned_count(rank), plan.materialized(rank).size(),
                static_cast<double>(weights.host().tensors()[0][0][0]));
  });
}
