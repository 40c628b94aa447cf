// SPDX-License-Identifier: Apache-2.0
/// What the scratch of a coded reduction is made of.
#pragma once

#include <algorithm>
#include <cstddef>

#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/piece_list.hpp"
#include "fssdp/collective/reduction_buffers.hpp"
#include "fssdp/core/byte_count.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The scratch of a reduction of which something is coded: first what lists and stretches take,
/// then slots.
class coded_reduction_scratch {
 public:
  /// @param sum_bytes the size of an element of a sum
  coded_reduction_scratch(transfer_plan const& plan, rank_id rank, coded_traffic const& traffic,
                          piece_extents const& extents, std::size_t sum_bytes)
      : plan_{plan},
        rank_{rank},
        traffic_{traffic},
        extents_{extents},
        sum_bytes_{sum_bytes},
        received_{most_operands(plan, rank)} {
    for_each_payload([this](transfer const&) { ++sent_payloads_; });
    for_each_sum([this](piece_id) { ++sent_sums_; });
    auto of_piece = std::size_t{0};
    auto const sends = plan.batched_sends(rank);
    for (std::size_t b = 0; b < sends.size(); ++b) {
      auto const coded = traffic.codes(sends[b]);
      if (b == 0 || sends[b].what() != sends[b - 1].what()) of_piece = 0;
      if (coded) stretches_ = std::max(stretches_, ++of_piece);
      (coded ? receives_payloads_ : receives_elements_) = true;
    }
    if (sent_payloads_ != 0 && !plan.forwarded(rank).empty()) ++stretches_;
  }

  /// The most operands that a sum has.
  [[nodiscard]] std::size_t summands() const { return received_ + 1; }
  /// For the parts that are decoded at once: of the payloads of one sum, and of a sum to encode.
  [[nodiscard]] std::size_t stretch_bytes() const {
    return byte_count(stretches_, traffic_.coder().stretch, sum_bytes_);
  }
  [[nodiscard]] std::size_t sent_payloads() const { return sent_payloads_; }
  /// Sums that are passed on as they are.
  [[nodiscard]] std::size_t sent_sums() const { return sent_sums_; }
  [[nodiscard]] auto payloads() const {
    return payload_slots(sent_payloads_, extents_, traffic_.coder());
  }
  [[nodiscard]] auto sums() const { return element_slots(sent_sums_, extents_, sum_bytes_); }
  /// For what arrives in one round, unless it is borrowed.
  [[nodiscard]] auto received() const {
    return slot_array{
        received_, extents_.tensors(), [this](std::size_t k) {
          auto const room = extents_.piece_room(k);
          auto const payload = receives_payloads_ ? traffic_.coder().encoded_bytes(room) : 0;
          auto const sum = receives_elements_ ? unpadded_bytes(1, room, sum_bytes_) : 0;
          return padded(std::max(payload, sum));  // of either
        }};
  }
  [[nodiscard]] std::size_t bytes(bool borrows) const {
    auto const lists = add_bytes(piece_list::bytes(sent_payloads_), piece_list::bytes(sent_sums_));
    auto const operands = add_bytes(byte_count(summands(), sizeof(summand), 1), stretch_bytes());
    auto const slots = add_bytes(payloads().bytes(), sums().bytes());
    return add_bytes(add_bytes(lists, operands),
                     add_bytes(slots, borrows ? 0 : received().bytes()));
  }

  /// Calls visit(transfer) for each for which the rank sends back a payload.
  template <class Visit>
  void for_each_payload(Visit visit) const {
    for (auto const& t : plan_.receives(rank_))
      if (traffic_.codes(t)) visit(t);
  }
  /// Calls visit(piece) for each of which it sends back a sum as it is.
  template <class Visit>
  void for_each_sum(Visit visit) const {
    for (auto const& t : plan_.receives(rank_))
      if (!traffic_.codes(t) && std::ranges::binary_search(plan_.forwarded(rank_), t.what()))
        visit(t.what());
  }

 private:
  transfer_plan const& plan_;
  rank_id rank_;
  coded_traffic traffic_;
  piece_extents extents_;
  std::size_t sum_bytes_;
  std::size_t received_;
  std::size_t sent_payloads_ = 0;
  std::size_t sent_sums_ = 0;
  std::size_t stretches_ = 0;
  bool receives_payloads_ = false;
  bool receives_elements_ = false;
};

}  // namespace fssdp::detail
