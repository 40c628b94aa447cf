// SPDX-License-Identifier: Apache-2.0
/// Chooses the best schedule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/possible_cuts.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/schedule_search.hpp"
#include "fssdp/plan/simulate.hpp"

namespace fssdp {

FSSDP_INLINE transfer_plan schedule(transfer_plan const& plan, std::size_t chunk_bytes,
                                    schedule_options const& options) {
  detail::require(chunk_bytes > 0, "schedule: chunk_bytes is 0; expected 1 or more");
  detail::require(options.piece_bytes == 0 || detail::pieces_of(chunk_bytes, options.piece_bytes) <=
                                                  std::size_t{most_pieces},
                  "schedule: piece_bytes is ", options.piece_bytes, " for chunks of ", chunk_bytes,
                  " bytes; expected at most ", most_pieces, " pieces");
  if (options.piece_bytes != 0) {
    auto const pieces = detail::pieces_of(chunk_bytes, options.piece_bytes);
    auto const transfers = detail::most_transfers(plan, pieces);
    detail::require(transfers <= std::numeric_limits<int>::max(), "schedule: piece_bytes is ",
                    options.piece_bytes, " for chunks of ", chunk_bytes, " bytes: up to ",
                    transfers, " transfers; expected at most ", std::numeric_limits<int>::max());
  }
  auto const with = [&](detail::relaying how) {
    auto search = detail::schedule_search{plan, chunk_bytes, how, options.senders};
    if (options.piece_bytes != 0)
      search.consider(static_cast<int>(detail::pieces_of(chunk_bytes, options.piece_bytes)));
    else
      search.consider({plan.topology(), chunk_bytes, options}, options.effort);
    return search.take();
  };
  auto result = with(options.relay_bytes == 0 ? detail::relaying::none : detail::relaying::allowed);
  auto const most_relayed =
      detail::most_pieces_within(options.relay_bytes, chunk_bytes, result.pieces());
  auto const relays_too_much = [&](rank_id rank) {
    return result.relayed(rank).size() > most_relayed;
  };
  if (std::ranges::any_of(first_n<rank_id>(plan.ranks()), relays_too_much))
    result = with(detail::relaying::none);
  auto const direct = options.piece_bytes == 0 ? 1 : result.pieces();
  if (detail::direct_seconds(plan, chunk_bytes, direct) < simulate(result, chunk_bytes).seconds)
    result = plan.realised_by(detail::direct_transfers(plan, plan.where(), direct), direct);
  if (options.sums == reduction_order::by_rank) return result.reduced_by(rank_ordered(plan));
  return result;
}

}  // namespace fssdp
