// SPDX-License-Identifier: Apache-2.0
/// The memory of a reduction in which some operands travel as payloads of a codec.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/codec/payload_codec.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/coded_work.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/piece_list.hpp"
#include "fssdp/collective/reduction_memory.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The scratch of one rank in such a reduction: lists and stretches first, then slots. A stretch is
/// the part of a piece that is decoded and summed in one step.
class coded_reduction_scratch {
 public:
  coded_reduction_scratch(transfer_plan const& plan, rank_id rank, coded_traffic const& traffic,
                          piece_extents const& extents, element_sizes sum_sizes)
      : plan_{plan},
        rank_{rank},
        traffic_{traffic},
        extents_{extents},
        sum_sizes_{sum_sizes},
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
  /// Room for one stretch: of each decoded payload of a sum, and of a sum that is to be encoded.
  [[nodiscard]] std::size_t stretch_bytes() const {
    return byte_count(stretches_, traffic_.coder().stretch, sum_sizes_.most());
  }
  [[nodiscard]] std::size_t sent_payloads() const { return sent_payloads_; }
  /// How many sums are passed on uncoded.
  [[nodiscard]] std::size_t sent_sums() const { return sent_sums_; }
  [[nodiscard]] auto payloads() const {
    return payload_slots(sent_payloads_, extents_, traffic_.coder());
  }
  [[nodiscard]] auto sums() const { return element_slots(sent_sums_, extents_, sum_sizes_); }
  /// Slots for what is received in one round, unless peers' memory is read in place.
  [[nodiscard]] auto received() const {
    return slot_array{
        received_, extents_.tensors(), [this](std::size_t k) {
          auto const room = extents_.piece_room(k);
          auto const payload = receives_payloads_ ? traffic_.coder().encoded_bytes(room) : 0;
          auto const sum = receives_elements_ ? unpadded_bytes(1, room, sum_sizes_[k]) : 0;
          return padded(std::max(payload, sum));  // room for either
        }};
  }
  /// The part of the scratch that is in host memory even where the data is on a device.
  [[nodiscard]] std::size_t list_bytes() const {
    auto const pieces = add_bytes(piece_list::bytes(sent_payloads_), piece_list::bytes(sent_sums_));
    return add_bytes(pieces, byte_count(summands(), sizeof(summand), 1));
  }
  /// @param decodes_first whether what is coded is decoded before it is summed
  [[nodiscard]] std::size_t data_bytes(bool borrows, bool decodes_first) const {
    auto const slots = add_bytes(payloads().bytes(), sums().bytes());
    return add_bytes(add_bytes(decodes_first ? stretch_bytes() : 0, slots),
                     borrows ? 0 : received().bytes());
  }
  /// An upper bound, whether `decodes_first` or not.
  [[nodiscard]] std::size_t bytes(bool borrows) const {
    return add_bytes(list_bytes(), data_bytes(borrows, true));
  }

  /// Calls visit(transfer) for each transfer that this rank answers with a payload.
  template <class Visit>
  void for_each_payload(Visit visit) const {
    for (auto const& t : plan_.receives(rank_))
      if (traffic_.codes(t)) visit(t);
  }
  /// Calls visit(piece) for each piece of which it sends back an uncoded sum.
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
  element_sizes sum_sizes_;
  std::size_t received_;
  std::size_t sent_payloads_ = 0;
  std::size_t sent_sums_ = 0;
  std::size_t stretches_ = 0;
  bool receives_payloads_ = false;
  bool receives_elements_ = false;
};

/// Partials and sums are encoded before they are sent over a coded link, and decoded by the rank
/// that sums them: on the host stretch by stretch, on a device within the kernel that sums.
class coded_reduction_memory {
 public:
  /// @param residuals [materialized, elements] of floats per tensor; empty: no error feedback
  coded_reduction_memory(reduction_buffers const& of, coded_traffic const& traffic,
                         std::span<tensor_view const> residuals, bool in_host_memory)
      : in_host_memory_{in_host_memory},
        of_{of},
        traffic_{traffic},
        residuals_{residuals},
        parts_{of.plan, of.me, traffic_, of.extents, of.sum_sizes()} {}

  [[nodiscard]] std::size_t tensors() const { return of_.partials.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return traffic_.label(); }
  [[nodiscard]] std::size_t list_bytes() const { return parts_.list_bytes(); }
  [[nodiscard]] std::size_t data_bytes(bool borrows) const {
    return parts_.data_bytes(borrows, in_host_memory_);
  }

  void begin(communicator_ref const& comm, std::byte* host, std::byte* data, bool borrows) {
    auto lists = memory_cutter{host};
    summands_ = lists.items<summand>(parts_.summands());
    sent_payloads_ = {lists, parts_.sent_payloads()};
    sent_sums_ = {lists, parts_.sent_sums()};
    auto memory = memory_cutter{data};
    if (in_host_memory_) stretches_ = memory.bytes(parts_.stretch_bytes());
    payloads_ = memory.bytes(parts_.payloads().bytes());
    sums_ = memory.bytes(parts_.sums().bytes());
    if (!borrows) received_ = memory.bytes(parts_.received().bytes());
    sent_payloads_.assign(
        [this](auto name) { parts_.for_each_payload([&](transfer const& t) { name(t.what()); }); });
    sent_sums_.assign([this](auto name) { parts_.for_each_sum(name); });
    parts_.for_each_payload([&](transfer const& t) {
      if (!is_sum(t))
        for (std::size_t k = 0; k < tensors(); ++k)
          encode(comm, k, t.what(), 0, of_.partial(k, t.what()), traffic_.coder().of_source,
                 of_.partials[k].type);
    });
  }

  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, transfer const& t) const {
    if (traffic_.codes(t)) return payload(k, t.what());
    return (is_sum(t) ? sum_of(k, t.what()) : of_.partial(k, t.what())).bytes();
  }
  [[nodiscard]] bool is_sum(transfer const& t) const {
    return of_.forwards(t.destination, t.what());
  }
  [[nodiscard]] std::size_t operand_bytes(std::size_t k, transfer const& t) const {
    return traffic_.codes(t) ? encoded_bytes(of_.extents.elements(k, t.what()))
                             : of_.operand_bytes(k, t);
  }
  [[nodiscard]] std::byte* received(std::size_t k, std::size_t slot) const {
    return received_ + parts_.received().offset(k, slot);
  }

  void sum_piece(sum_batch& sums, std::size_t k, std::span<transfer const> senders,
                 function_ref<std::byte const*(std::size_t)> bytes) const {
    if (!in_host_memory_) return sum_on_device(sums, k, senders, bytes);
    auto const piece = senders.front().what();
    auto const elements = of_.extents.elements(k, piece);
    auto const codes = [&](transfer const& t) { return traffic_.codes(t); };
    auto const coded = sent_payloads_.contains(piece) || std::ranges::any_of(senders, codes);
    auto const step = coded ? traffic_.coder().stretch : elements;
    for (std::size_t first = 0; first < elements; first += step)
      sum_stretch(sums, k, senders, {first, std::min(step, elements - first)}, bytes);
  }
  void sum_unshared(sum_batch& sums) const { of_.sum_unshared(sums); }

 private:
  /// A stretch: the elements of a piece that are summed in one step.
  struct part {
    std::size_t first;
    std::size_t elements;
    [[nodiscard]] element_range of(element_range const& piece) const {
      return piece.part(first, elements);
    }
  };

  /// Sums a stretch over the senders and this rank.
  void sum_stretch(sum_batch& sums, std::size_t k, std::span<transfer const> senders,
                   part const& at, function_ref<std::byte const*(std::size_t)> bytes) const {
    auto const sum_type = accumulator_of(of_.partials[k].type);
    auto const sum_bytes = of_.sum_sizes()[k];
    auto const room_bytes = traffic_.coder().stretch * sum_bytes;
    auto* room = stretches_;
    auto const summands = of_.in_rank_order(k, senders, at.first, summands_, [&](std::size_t i) {
      if (!traffic_.codes(senders[i])) return of_.received(k, senders[i], bytes(i), at.first);
      auto* const decoded = std::exchange(room, room + room_bytes);
      auto const payload = std::span{bytes(i), encoded_bytes(at.first + at.elements)};
      traffic_.coder().decode(payload.subspan(encoded_bytes(at.first)), sum_type, decoded,
                              at.elements);
      return summand{.summed = decoded};
    });
    auto const piece = senders.front().what();
    if (of_.owns(piece.chunk)) {
      sums.add(of_.to_owner(k), summands, at.of(of_.gradient(k, piece)));
    } else if (sent_payloads_.contains(piece)) {
      auto const sum = element_range{room, at.elements, sum_bytes};
      sums.add(of_.to_pass_on(k), summands, sum);
      encode(sums.comm(), k, piece, at.first, sum, traffic_.coder().of_sums, sum_type);
    } else {
      sums.add(of_.to_pass_on(k), summands, at.of(sum_of(k, piece)));
    }
  }

  /// Sums a whole piece with payloads as operands; encodes the sum if it is sent over a coded link.
  void sum_on_device(sum_batch& sums, std::size_t k, std::span<transfer const> senders,
                     function_ref<std::byte const*(std::size_t)> bytes) const {
    auto const piece = senders.front().what();
    auto const elements = of_.extents.elements(k, piece);
    if (elements == 0) return;
    auto const code = *traffic_.coder().on_devices;
    auto const add_operands = [&](auto& to) {
      of_.in_rank_order(
          k, senders, 0,
          [&](std::size_t i) {
            auto const* const operand = bytes(i);
            to.add(traffic_.codes(senders[i])
                       ? device_sums::operand{operand, device_sums::kind::payload}
                       : sum_batch::operand_of(of_.received(k, senders[i], operand, 0)));
          },
          [&](summand const& own) { to.add(sum_batch::operand_of(own)); });
    };
    if (of_.owns(piece.chunk)) {
      sums.begin(of_.to_owner(k), senders.size() + 1, of_.gradient(k, piece), code);
      add_operands(sums);
    } else if (sent_payloads_.contains(piece)) {
      auto encoding = device_sum_encoding{
          .sum = {}, .residual = residual(k, piece, 0), .payload = payload(k, piece).data()};
      encoding.sum.partials = of_.to_sums(k).partials;
      encoding.sum.code = code;
      encoding.sum.begin(nullptr, elements);
      add_operands(encoding.sum);
      sums.comm().encode(encoding);
    } else {
      sums.begin(of_.to_pass_on(k), senders.size() + 1, sum_of(k, piece), code);
      add_operands(sums);
    }
  }

  /// Encodes what this rank sends back for a piece, beginning with its element `first`.
  void encode(communicator_ref const& comm, std::size_t k, piece_id piece, std::size_t first,
              element_range const& from, payload_encoder const& with, dtype type) const {
    auto const begin = encoded_bytes(first);
    auto const to = payload(k, piece).subspan(begin, encoded_bytes(first + from.count) - begin);
    encode_on(comm, traffic_.coder(), with, type, from, residual(k, piece, first), to);
  }
  /// The residuals of a piece, beginning with its element `first`; null if it has none.
  [[nodiscard]] float* residual(std::size_t k, piece_id piece, std::size_t first) const {
    if (residuals_.empty() || !of_.holds(piece.chunk)) return nullptr;
    auto const slot = transfer_plan::slot_in(of_.plan.materialized(of_.me), piece.chunk.expert);
    auto const all = of_.extents.cut_expert(residuals_[k][slot], k, piece);
    return reinterpret_cast<float*>(all.part(first, 0).data);
  }

  [[nodiscard]] std::size_t encoded_bytes(std::size_t elements) const {
    return traffic_.coder().encoded_bytes(elements);
  }
  [[nodiscard]] std::span<std::byte> payload(std::size_t k, piece_id piece) const {
    return {payloads_ + parts_.payloads().offset(k, sent_payloads_.slot(piece)),
            encoded_bytes(of_.extents.elements(k, piece))};
  }
  [[nodiscard]] element_range sum_of(std::size_t k, piece_id piece) const {
    return {sums_ + parts_.sums().offset(k, sent_sums_.slot(piece)), of_.extents.elements(k, piece),
            of_.sum_sizes()[k]};
  }

  bool in_host_memory_;
  reduction_buffers of_;
  coded_traffic traffic_;
  std::span<tensor_view const> residuals_;
  coded_reduction_scratch parts_;
  std::span<summand> summands_;
  std::byte* stretches_ = nullptr;
  piece_list sent_payloads_;
  piece_list sent_sums_;
  std::byte* payloads_ = nullptr;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace fssdp::detail
