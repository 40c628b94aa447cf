// SPDX-License-Identifier: Apache-2.0
/// The exchange of rows.
#pragma once

#include <cstddef>
#include <limits>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/row_messages.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp::detail {

FSSDP_INLINE void row_exchange::run(communicator_ref const& comm) const {
  using end = row_messages::end;
  auto const limit = pack_below(comm);
  auto const out =
      row_messages{plan_, back_ ? end::received : end::sent, true, from_, row_bytes_, limit};
  auto const in =
      row_messages{plan_, back_ ? end::sent : end::received, false, to_, row_bytes_, limit};
  auto const leaving = out.packed_bytes();
  auto const arriving = in.packed_bytes();
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  auto* const packed = leaving + arriving == 0 ? nullptr : scratch.cut(0, leaving + arriving).data;

  out.for_each_packed([&, next = packed](token_segment const& s) mutable {
    copy_on(comm, out.bytes(s), {next, out.bytes(s).size()});
    next += out.bytes(s).size();
  });
  comm.exchange([&](batch_ref const& batch) {
    batch.label({plan_.hash_value(), back_ ? 1 : 0});
    out.for_each(packed, [&](auto bytes, rank_id to) { batch.send(bytes, to); });
    in.for_each(packed + leaving, [&](auto bytes, rank_id from) { batch.recv(bytes, from); });
  });
  auto const staying = out.of(plan_.rank());
  auto const kept = in.of(plan_.rank());
  for (std::size_t i = 0; i < staying.size(); ++i)
    copy_on(comm, out.bytes(staying[i]), in.bytes(kept[i]));
  in.for_each_packed([&, next = packed + leaving](token_segment const& s) mutable {
    copy_on(comm, {next, in.bytes(s).size()}, in.bytes(s));
    next += in.bytes(s).size();
  });
}

FSSDP_INLINE std::size_t row_exchange::pack_below(communicator_ref const& comm) const {
  auto const& [sent, received] = plan_.orders();
  if (sent == row_order::by_rank && received == row_order::by_rank)
    return std::numeric_limits<std::size_t>::max();
  return options_.pack_below.value_or(comm.in_host_memory() ? token_options::packs_below : 0);
}

FSSDP_INLINE void check_plan_of(char const* name, token_plan const& plan, rank_id rank, int ranks) {
  require(ranks == plan.ranks() && rank == plan.rank(), name, ": the communicator has rank ", rank,
          " of ", ranks, "; expected rank ", plan.rank(), " of ", plan.ranks(), ", as in the plan");
}

}  // namespace fssdp::detail
