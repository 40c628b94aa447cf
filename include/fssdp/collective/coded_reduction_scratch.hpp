// SPDX-License-Identifier: Apache-2.0
/// What the scratch of a coded reduction is made of.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/collective/accumulate.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/piece_slots.hpp"
#include "fssdp/collective/reduction_buffers.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The scratch of a reduction of which something is coded: first what lists and stretches take,
/// then slots.
/// @tparam T the type of partials
template <element T>
struct coded_reduction_scratch {
  std::size_t received;        ///< slots for what arrives in one round, unless it is borrowed
  std::size_t payloads = 0;    ///< slots for what the rank sends as payloads
  std::size_t sums = 0;        ///< slots for sums that it passes on as they are
  std::size_t stretches = 0;   ///< of the payloads of one sum, and of a sum to encode
  std::size_t stretch_bytes;   ///< for the part of an operand that is decoded at once
  std::size_t summand_bytes;   ///< for the operands of one sum
  std::size_t payload_bytes;   ///< of a slot
  std::size_t sum_bytes;       ///< of a slot
  std::size_t received_bytes;  ///< of a slot
  bool receives_payloads = false;
  bool receives_elements = false;

  template <codec Codec, class Tensors>
  coded_reduction_scratch(transfer_plan const& plan, rank_id rank,
                          coded_traffic<Codec> const& traffic,
                          piece_extents<Tensors> const& extents)
      : received{most_operands(plan, rank)},
        stretch_bytes{chunk_elements<Codec> * sizeof(accumulator_t<T>)},
        summand_bytes{(received + 1) * sizeof(summand<T>)},
        payload_bytes{payload_offset(traffic.coder(), extents, extents.tensors())},
        sum_bytes{piece_offset(extents, extents.tensors(), sizeof(accumulator_t<T>))} {
    for_each_payload(plan, rank, traffic, [&](transfer const&) { ++payloads; });
    for_each_sum(plan, rank, traffic, [&](piece_id) { ++sums; });
    auto of_piece = std::size_t{0};
    auto const sends = plan.batched_sends(rank);
    for (std::size_t b = 0; b < sends.size(); ++b) {
      auto const coded = traffic.codes(sends[b]);
      if (b == 0 || sends[b].what() != sends[b - 1].what()) of_piece = 0;
      if (coded) stretches = std::max(stretches, ++of_piece);
      (coded ? receives_payloads : receives_elements) = true;
    }
    if (payloads != 0 && !plan.forwarded(rank).empty()) ++stretches;
    received_bytes = received_offset(traffic, extents, extents.tensors());
  }
  /// Where tensor k begins in a slot for what arrives.
  template <codec Codec, class Tensors>
  [[nodiscard]] std::size_t received_offset(coded_traffic<Codec> const& traffic,
                                            piece_extents<Tensors> const& extents,
                                            std::size_t k) const {
    return slot_offset(k, [&](std::size_t j) {
      auto const room = extents.piece_room(j);
      auto const payload = receives_payloads ? traffic.coder().encoded_bytes(room) : 0;
      auto const sum = receives_elements ? byte_count(1, room, sizeof(accumulator_t<T>)) : 0;
      return std::max(payload, sum);
    });
  }
  [[nodiscard]] std::size_t bytes(bool borrows) const {
    auto const lists = add_bytes(padded(summand_bytes), byte_count(stretches, stretch_bytes, 1));
    auto const slots =
        add_bytes(piece_slots::bytes(payloads, payload_bytes), piece_slots::bytes(sums, sum_bytes));
    return add_bytes(add_bytes(lists, slots),
                     borrows ? 0 : byte_count(received, received_bytes, 1));
  }

  /// Calls visit(transfer) for each for which a rank sends back a payload.
  template <codec Codec, class Visit>
  static void for_each_payload(transfer_plan const& plan, rank_id rank,
                               coded_traffic<Codec> const& traffic, Visit visit) {
    for (auto const& t : plan.receives(rank))
      if (traffic.codes(t)) visit(t);
  }
  /// Calls visit(piece) for each of which it sends back a sum as it is.
  template <codec Codec, class Visit>
  static void for_each_sum(transfer_plan const& plan, rank_id rank,
                           coded_traffic<Codec> const& traffic, Visit visit) {
    for (auto const& t : plan.receives(rank))
      if (!traffic.codes(t) && std::ranges::binary_search(plan.forwarded(rank), t.what()))
        visit(t.what());
  }
};

}  // namespace fssdp::detail
