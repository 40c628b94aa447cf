// SPDX-License-Identifier: Apache-2.0
/// Where the operands of a reduction are and how they are summed, if some travel as payloads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/collective/accumulate.hpp"
#include "fssdp/collective/coded_reduction_scratch.hpp"
#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/piece_list.hpp"
#include "fssdp/collective/reduction_buffers.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/expert_tensor.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// What goes over a coded link is encoded before it is sent, partials and sums alike, and decoded
/// where it is summed, a stretch at a time.
template <codec Codec, class Partials, class Gradients>
class coded_reduction_memory {
  using buffers = reduction_buffers<Partials, Gradients>;
  using T = typename buffers::partial_type;
  using sum_type = typename buffers::sum_type;
  static constexpr auto stretch = stretch_elements<Codec>;

 public:
  using residual_tensors = std::span<expert_tensor<float> const>;

  /// @param residuals [held, elements] per tensor, or none: then what a payload lacks is lost
  coded_reduction_memory(buffers const& of, coded_links<Codec> const& links,
                         residual_tensors residuals)
      : of_{of},
        traffic_{of.plan, links},
        residuals_{residuals},
        parts_{of.plan, of.me, traffic_, of.extents} {}

  [[nodiscard]] std::size_t tensors() const { return of_.partials.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return traffic_.label(); }
  /// All of it is host memory: lists and data are not told apart.
  [[nodiscard]] std::size_t list_bytes() const { return 0; }
  [[nodiscard]] std::size_t data_bytes(bool borrows) const { return parts_.bytes(borrows); }

  void begin(std::byte*, std::byte* data, bool borrows) {
    auto memory = memory_cutter{data};
    summands_ = memory.items<summand<T>>(parts_.summands());
    stretches_ = reinterpret_cast<sum_type*>(memory.bytes(parts_.stretch_bytes()));
    sent_payloads_ = {memory, parts_.sent_payloads()};
    sent_sums_ = {memory, parts_.sent_sums()};
    payloads_ = memory.bytes(parts_.payloads().bytes());
    sums_ = memory.bytes(parts_.sums().bytes());
    if (!borrows) received_ = memory.bytes(parts_.received().bytes());
    sent_payloads_.assign(
        [this](auto name) { parts_.for_each_payload([&](transfer const& t) { name(t.what()); }); });
    sent_sums_.assign([this](auto name) { parts_.for_each_sum(name); });
    parts_.for_each_payload([this](transfer const& t) {
      if (!is_sum(t))
        for (std::size_t k = 0; k < tensors(); ++k)
          encode(k, t.what(), {0, of_.extents.elements(k, t.what())}, of_.partial(k, t.what()));
    });
  }

  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, transfer const& t) const {
    if (traffic_.codes(t)) return payload(k, t.what());
    return is_sum(t) ? std::as_bytes(sum_of(k, t.what())) : std::as_bytes(of_.partial(k, t.what()));
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

  template <class Lane, class Bytes>
  void sum_piece(Lane&, std::size_t k, std::span<transfer const> senders, Bytes bytes) const {
    auto const piece = senders.front().what();
    auto const elements = of_.extents.elements(k, piece);
    auto const codes = [&](transfer const& t) { return traffic_.codes(t); };
    auto const coded = sent_payloads_.contains(piece) || std::ranges::any_of(senders, codes);
    auto const step = coded ? stretch : elements;
    for (std::size_t first = 0; first < elements; first += step)
      sum_stretch(k, senders, {first, std::min(step, elements - first)}, bytes);
  }
  template <class Lane>
  void sum_unshared(Lane& lane) const {
    of_.sum_unshared(lane);
  }

 private:
  /// Elements of a piece that are summed at once.
  struct part {
    std::size_t first;
    std::size_t elements;
    template <class Item>
    [[nodiscard]] std::span<Item> of(std::span<Item> piece) const {
      return piece.subspan(first, elements);
    }
  };

  /// Sums them over those who send them back and this rank.
  template <class Bytes>
  void sum_stretch(std::size_t k, std::span<transfer const> senders, part const& at,
                   Bytes bytes) const {
    auto* room = stretches_;
    auto const summands = of_.in_rank_order(k, senders, at.first, summands_, [&](std::size_t i) {
      if (!traffic_.codes(senders[i])) return of_.received(senders[i], bytes(i), at.first);
      auto const decoded = std::span{std::exchange(room, room + stretch), at.elements};
      auto const payload = std::span{bytes(i), encoded_bytes(at.first + at.elements)};
      decode_elements(traffic_.coder(), payload.subspan(encoded_bytes(at.first)), decoded);
      return summand<T>{.summed = decoded.data()};
    });
    auto const piece = senders.front().what();
    if (of_.owns(piece.chunk)) {
      accumulate(summands, at.of(of_.gradient(k, piece)), of_.scale, of_.into);
    } else if (sent_payloads_.contains(piece)) {
      auto const sums = std::span{room, at.elements};
      accumulate(summands, sums);
      encode(k, piece, at, std::span<sum_type const>{sums});
    } else {
      accumulate(summands, at.of(sum_of(k, piece)));
    }
  }

  /// Encodes elements of what this rank sends back for a piece.
  template <element Source>
  void encode(std::size_t k, piece_id piece, part const& at, std::span<Source const> from) const {
    auto const begin = encoded_bytes(at.first);
    auto const to = payload(k, piece).subspan(begin, encoded_bytes(at.first + at.elements) - begin);
    if (residuals_.empty() || !of_.holds(piece.chunk)) {
      encode_elements(traffic_.coder(), from, to);
    } else {
      auto const slot = transfer_plan::slot_in(of_.plan.held(of_.me), piece.chunk.expert);
      auto const residual = of_.extents.cut_expert(residuals_[k][slot], k, piece);
      encode_with_feedback(traffic_.coder(), from, at.of(residual), to);
    }
  }

  [[nodiscard]] std::size_t encoded_bytes(std::size_t elements) const {
    return traffic_.coder().encoded_bytes(elements);
  }
  [[nodiscard]] std::span<std::byte> payload(std::size_t k, piece_id piece) const {
    return {payloads_ + parts_.payloads().offset(k, sent_payloads_.slot(piece)),
            encoded_bytes(of_.extents.elements(k, piece))};
  }
  [[nodiscard]] std::span<sum_type> sum_of(std::size_t k, piece_id piece) const {
    auto* const at = sums_ + parts_.sums().offset(k, sent_sums_.slot(piece));
    return {reinterpret_cast<sum_type*>(at), of_.extents.elements(k, piece)};
  }

  buffers of_;
  coded_traffic<Codec> traffic_;
  residual_tensors residuals_;
  coded_reduction_scratch<T, Codec, Partials> parts_;
  std::span<summand<T>> summands_;
  sum_type* stretches_ = nullptr;
  piece_list sent_payloads_;
  piece_list sent_sums_;
  std::byte* payloads_ = nullptr;
  std::byte* sums_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace fssdp::detail
