// SPDX-License-Identifier: Apache-2.0
/// A plan in which all ranks meet, and its buffers: two tensors of different sizes.
#pragma once

#include <array>
#include <cstddef>

#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/held.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "nccl/devices.hpp"

namespace nccl_tests {

/// Every rank owns one expert, and all hold it.
struct everywhere_plan {
  static constexpr auto elements = std::array{std::size_t{7}, std::size_t{11}};

  int ranks;
  fssdp::block_layout layout{{.experts = ranks, .ranks = ranks}};
  fssdp::transfer_plan plan = make_plan(layout, fssdp::everywhere{}(layout));
};

/// Rank r owns ones times r + 1; the partial gradients are what it has gathered.
struct everywhere_buffers {
  fssdp::expert_buffer<float> shard;
  fssdp::expert_buffer<float> all;
  fssdp::expert_buffer<float> gradients;

  everywhere_buffers(everywhere_plan const& of, fssdp::rank_id rank)
      : shard{fssdp::make_shard<float>(of.layout, rank, of.elements)},
        all{fssdp::make_partials<float>(of.plan, rank, of.elements)},
        gradients{fssdp::make_shard<float>(of.layout, rank, of.elements)} {
    set(static_cast<float>(rank.value() + 1));
  }
  void set(float value) {
    for (auto const& tensor : shard.tensors())
      for (auto& element : tensor[0]) element = value;
  }
  /// Enqueues both verbs.
  template <class Comm>
  void gather_and_reduce(Comm& comm, fssdp::transfer_plan const& plan,
                         fssdp::reduce_options const& options = {}) {
    fssdp::sparse_all_gather(comm, plan, shard, all, {.scratch = options.scratch});
    fssdp::sparse_reduce_scatter(comm, plan, all, gradients, options);
  }
  /// Whether all gradients are this.
  [[nodiscard]] bool gradients_are(float expected) const {
    for (auto const& tensor : gradients.tensors())
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
    auto mine = everywhere_buffers{of, comm.rank()};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
    auto const sum = static_cast<float>(among.ranks * (comm.rank().value() + 1));
    if (!mine.gradients_are(sum)) throw std::runtime_error{"a wrong sum"};
  });
  std::erase(thrown, nullptr);
  return thrown;
}

}  // namespace nccl_tests
