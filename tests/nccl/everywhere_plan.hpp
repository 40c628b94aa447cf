// SPDX-License-Identifier: Apache-2.0
/// A plan in which all ranks meet, and its buffers: two tensors of different sizes.
#pragma once

#include <cstddef>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/cuda/cuda_mirror.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "nccl/devices.hpp"
#include "support/everywhere_plan.hpp"

namespace nccl_tests {

using support::everywhere_plan;

/// Rank r owns ones times r + 1; the partial gradients are what it has gathered.
struct everywhere_buffers {
  fssdp::cuda_mirror<float> shard;
  fssdp::cuda_mirror<float> all;
  fssdp::cuda_mirror<float> gradients;

  template <class Comm>
  everywhere_buffers(everywhere_plan const& of, Comm const& comm)
      : shard{fssdp::make_shard<float>(of.layout, comm.rank(), of.elements), comm.stream()},
        all{fssdp::make_partials<float>(of.plan, comm.rank(), of.elements), comm.stream()},
        gradients{fssdp::make_shard<float>(of.layout, comm.rank(), of.elements), comm.stream()} {
    set(static_cast<float>(comm.rank().value() + 1));
  }
  void set(float value) {
    for (auto const& tensor : shard.host().tensors())
      for (auto& element : tensor[0]) element = value;
    shard.copy_to_device();
  }
  /// Enqueues both collectives.
  template <class Comm>
  void gather_and_reduce(Comm& comm, fssdp::transfer_plan const& plan,
                         fssdp::reduce_options const& options = {}) {
    fssdp::sparse_all_gather(comm, plan, shard, all, {.scratch = options.scratch});
    fssdp::sparse_reduce_scatter(comm, plan, all, gradients, options);
  }
  /// Whether all gradients are this.
  /// @pre what is on the stream has run
  [[nodiscard]] bool gradients_are(float expected) {
    gradients.synchronize_to_host();
    for (auto const& tensor : gradients.host().tensors())
      for (auto const element : tensor[0])
        if (element != expected) return false;
    return true;
  }
};

/// What goes wrong, rank by rank, when the ranks gather and reduce in a new world; none if all is
/// well.
[[nodiscard]] inline std::vector<std::exception_ptr> failures(
    world const& among, std::function<void(fssdp::nccl_communicator&)> const& before = {}) {
  auto const of = everywhere_plan{among.ranks};
  auto thrown = thrown_by(among, [&](fssdp::nccl_communicator& comm) {
    if (before) before(comm);
    auto mine = everywhere_buffers{of, comm};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
    auto const sum = static_cast<float>(among.ranks * (comm.rank().value() + 1));
    if (!mine.gradients_are(sum)) throw std::runtime_error{"a wrong sum"};
  });
  std::erase(thrown, nullptr);
  return thrown;
}

}  // namespace nccl_tests
