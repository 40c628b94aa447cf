// SPDX-License-Identifier: Apache-2.0
/// How a rank takes part in a reduction.
#pragma once

#include <utility>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/coded_reduction_memory.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/coded_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/collective/reduction_pass.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/whole_experts.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE reduction_buffers reduction_call::buffers() const {
  return {plan_.reduction(), rank_, from_.all(), to_.all(), find_, options_.scale, options_.into};
}

FSSDP_INLINE void reduction_call::check(int ranks, tensor_list const* residuals) const {
  auto const source = named_tensors{"from", from_.all()};
  auto const target = named_tensors{"to", to_.all()};
  check_ranks(name, ranks, plan_);
  check_sizes(name, plan_.slices(), target, source);
  check_slots(name, source, plan_.materialized(rank_).size(), "experts that the rank holds",
              plan_.materialized_offsets(rank_));
  check_slots(name, target, plan_.owned_count(rank_), "chunks that the rank owns",
              plan_.owned_offsets(rank_));
  check_aliases(name, source, target);
  if (residuals == nullptr) return;
  auto const left = named_tensors{"residuals", residuals->all()};
  auto const held = plan_.reduction().materialized(rank_).size();
  check_sizes(name, 1, left, source);
  check_slots(name, left, held, "experts that the rank holds",
              plan_.reduction().materialized_offsets(rank_));
  check_aliases(name, source, left);
  check_aliases(name, target, left);
}

FSSDP_INLINE void reduction_call::run(communicator_ref const& comm) const {
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  auto const of = buffers();
  if (comm.in_host_memory() && comm.lends() && moves_whole_experts(of.plan)) {
    auto const summands = most_operands(of.plan, rank_) + 1;
    auto lists = memory_cutter{scratch.cut(byte_count(summands, sizeof(summand), 1), 0).lists};
    return reduce_whole_experts(comm, of, lists.items<summand>(summands));
  }
  auto const memory = reduction_memory{of};
  reduction_pass{plan_.reduction(), rank_, memory}.run(comm, scratch);
}
FSSDP_INLINE void reduction_call::run_coded(communicator_ref const& comm,
                                            payload_codec const& coder, link_class on) const {
  check_codes(name, comm, coder);
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  auto const memory = coded_reduction_memory{buffers(), coded_traffic{plan_.reduction(), coder, on},
                                             residuals_.all(), comm.in_host_memory()};
  reduction_pass{plan_.reduction(), rank_, memory}.run(comm, scratch);
}

}  // namespace fssdp::detail
