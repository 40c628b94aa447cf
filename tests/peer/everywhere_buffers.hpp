// SPDX-License-Identifier: Apache-2.0
/// The buffers of a plan in which all ranks meet, in memory that host and devices read and write.
#pragma once

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/everywhere_plan.hpp"

namespace peer_tests {

/// Rank r owns ones times r + 1; the partial gradients are what it has gathered.
struct everywhere_buffers {
  fssdp::expert_buffer<float> shard;
  fssdp::expert_buffer<float> all;
  fssdp::expert_buffer<float> gradients;

  everywhere_buffers(support::everywhere_plan const& of, fssdp::rank_id rank)
      : shard{fssdp::make_shard<float>(of.layout, rank, of.elements)},
        all{fssdp::make_partials<float>(of.plan, rank, of.elements)},
        gradients{fssdp::make_shard<float>(of.layout, rank, of.elements)} {
    for (auto const& tensor : shard.tensors())
      for (auto& element : tensor[0]) element = static_cast<float>(rank.value() + 1);
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
  [[nodiscard]] bool gradients_are(float expected) const {
    for (auto const& tensor : gradients.tensors())
      for (auto const element : tensor[0])
        if (element != expected) return false;
    return true;
  }
};

}  // namespace peer_tests
