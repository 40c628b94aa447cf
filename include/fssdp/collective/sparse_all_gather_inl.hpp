// SPDX-License-Identifier: Apache-2.0
/// How a rank takes part in a gather.
#pragma once

#include <span>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/coded_gather_memory.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/coded_work.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/whole_experts.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE std::span<expert_id const> gather_call::slots() const {
  auto const held = plan_.materialized(rank_);
  auto const replicas = to_.all();
  auto const in_one_piece = !replicas.empty() && replicas.front().slots == held.size();
  return in_one_piece ? held : plan_.remote(rank_);
}
FSSDP_INLINE gather_buffers gather_call::buffers(std::span<expert_id const> slots) const {
  return {plan_, rank_, from_.all(), to_.all(), slots, find_};
}

FSSDP_INLINE void gather_call::check_buffers(std::span<expert_id const> slots,
                                             char const* shape) const {
  auto const source = named_tensors{"from", from_.all()};
  auto const target = named_tensors{"to", to_.all()};
  check_sizes(name, plan_.slices(), source, target);
  auto const all = slots.size() == plan_.materialized(rank_).size();
  check_slots(name, source, plan_.owned_count(rank_), "chunks that the rank owns",
              plan_.owned_offsets(rank_));
  check_slots(name, target, slots.size(), shape,
              all ? plan_.materialized_offsets(rank_) : plan_.remote_offsets(rank_));
  check_aliases(name, source, target);
}
FSSDP_INLINE void gather_call::check(int ranks) const {
  check_ranks(name, ranks, plan_);
  check_buffers(slots(), "experts that the rank holds and does not own; or all it holds");
}
FSSDP_INLINE void gather_call::check_coded(int ranks) const {
  check_ranks(name, ranks, plan_);
  check_buffers(plan_.materialized(rank_),
                "all experts that the rank holds, as its own are decoded, too");
}

FSSDP_INLINE void gather_call::run(communicator_ref const& comm) const {
  auto const of = buffers(slots());
  if (moves_whole_experts(plan_) && !of.changes_types()) return gather_whole_experts(comm, of);
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  auto const memory = gather_memory{of};
  gather_pass{plan_, rank_, memory}.run(comm, scratch);
}
FSSDP_INLINE void gather_call::run_coded(communicator_ref const& comm, payload_codec const& coder,
                                         link_class on) const {
  check_codes(name, comm, coder);
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  auto const memory =
      coded_gather_memory{buffers(plan_.materialized(rank_)), coded_traffic{plan_, coder, on}};
  gather_pass{plan_, rank_, memory}.run(comm, scratch);
}

}  // namespace fssdp::detail
