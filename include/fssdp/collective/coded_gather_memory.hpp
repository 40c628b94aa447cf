// SPDX-License-Identifier: Apache-2.0
/// The memory of a gather in which some pieces travel as payloads of a codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/collective/coded_traffic.hpp"
#include "fssdp/collective/coded_work.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/memory_cutter.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/piece_list.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// The scratch of one rank in such a gather: slots for the payloads that it sends or receives, and
/// for uncoded pieces without a slot in `to`: those that it relays or converts.
class coded_gather_scratch {
 public:
  coded_gather_scratch(gather_buffers const& of, coded_traffic const& traffic)
      : plan_{of.plan},
        rank_{of.me},
        traffic_{traffic},
        converts_{of.changes_types()},
        extents_{of.extents},
        sizes_{element_sizes::of(of.to)} {
    for_each_coded([this](piece_id) { ++coded_; });
    for_each_loose([this](piece_id) { ++loose_; });
  }

  [[nodiscard]] std::size_t coded() const { return coded_; }
  [[nodiscard]] std::size_t loose() const { return loose_; }
  [[nodiscard]] auto payloads() const { return payload_slots(coded_, extents_, traffic_.coder()); }
  [[nodiscard]] auto pieces() const { return element_slots(loose_, extents_, sizes_); }
  [[nodiscard]] std::size_t list_bytes() const {
    return add_bytes(piece_list::bytes(coded_), piece_list::bytes(loose_));
  }
  [[nodiscard]] std::size_t data_bytes() const {
    return add_bytes(payloads().bytes(), pieces().bytes());
  }
  [[nodiscard]] std::size_t bytes() const { return add_bytes(list_bytes(), data_bytes()); }

  /// Calls visit(piece) for each piece that the rank sends or receives as a payload.
  template <class Visit>
  void for_each_coded(Visit visit) const {
    for (auto const chunk : plan_.shared(rank_))
      for (int piece = 0; piece < plan_.pieces() && traffic_.codes_any_of(chunk); ++piece)
        visit(piece_id{chunk, piece});
    for (auto const& t : plan_.receives(rank_))
      if (traffic_.codes_any_of(t.chunk)) visit(t.what());
  }
  /// Calls visit(piece) for each uncoded piece that needs scratch, as it has no slot in `to`.
  template <class Visit>
  void for_each_loose(Visit visit) const {
    for (auto const& piece : plan_.relayed(rank_))
      if (!traffic_.codes_any_of(piece.chunk)) visit(piece);
    if (!converts_) return;
    for (auto const chunk : plan_.shared(rank_))
      if (!traffic_.codes_any_of(chunk) && !plan_.where().holds(rank_, chunk.expert))
        for (int piece = 0; piece < plan_.pieces(); ++piece) visit(piece_id{chunk, piece});
  }

 private:
  transfer_plan const& plan_;
  rank_id rank_;
  coded_traffic traffic_;
  bool converts_;  // whether owners convert any tensor
  piece_extents extents_;
  element_sizes sizes_;
  std::size_t coded_ = 0;  // pieces
  std::size_t loose_ = 0;
};

/// Pieces of coded chunks travel as payloads. The owner encodes them once; all ranks that hold the
/// expert, the owner included, decode the same bytes. All other pieces travel uncoded.
class coded_gather_memory {
 public:
  /// @pre `of` has a slot for every expert that the rank holds
  coded_gather_memory(gather_buffers const& of, coded_traffic const& traffic)
      : of_{of}, traffic_{traffic}, parts_{of, traffic_} {}

  [[nodiscard]] std::size_t tensors() const { return of_.to.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return traffic_.label(); }

  /// Copies this rank's own chunks into `to`, and encodes or converts what it sends.
  void begin(communicator_ref const& comm, pass_scratch& scratch) {
    if (parts_.bytes() != 0) divide(scratch.cut(parts_.list_bytes(), parts_.data_bytes()));
    make_conversions(comm, [&](conversion_batch& batch) {
      of_.for_each_own_chunk([&](chunk_id chunk) {
        if (!traffic_.codes_any_of(chunk)) of_.place(batch, chunk);
      });
      for_each_shared_piece([&](std::size_t k, piece_id piece) {
        if (!traffic_.codes_any_of(piece.chunk) && of_.changes_type(k) && !of_.holds(piece.chunk))
          batch.add(of_.conversion(k), of_.own_piece(k, piece), landing(k, piece));
      });
    });
    form_sums(comm, [&](sum_batch& decoded) {
      for_each_shared_piece([&](std::size_t k, piece_id piece) {
        if (traffic_.codes_any_of(piece.chunk)) encode(decoded, k, piece);
      });
    });
  }

  [[nodiscard]] std::span<std::byte> incoming(std::size_t k, piece_id piece) const {
    if (traffic_.codes_any_of(piece.chunk)) return payload(k, piece);
    return landing(k, piece).bytes();
  }
  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, piece_id piece) const {
    auto const as_it_is = !of_.changes_type(k) && !traffic_.codes_any_of(piece.chunk);
    if (as_it_is && of_.owns(piece.chunk)) return of_.own_piece(k, piece).bytes();
    return incoming(k, piece);
  }
  void arrived(sum_batch& decoded, std::size_t k, piece_id piece) const {
    if (traffic_.codes_any_of(piece.chunk)) decode(decoded, k, piece);
  }

 private:
  void divide(pass_scratch::parts const& scratch) {
    auto lists = memory_cutter{scratch.lists};
    coded_ = {lists, parts_.coded()};
    loose_ = {lists, parts_.loose()};
    auto memory = memory_cutter{scratch.data};
    payloads_ = memory.bytes(parts_.payloads().bytes());
    pieces_ = memory.bytes(parts_.pieces().bytes());
    coded_.assign([this](auto name) { parts_.for_each_coded(name); });
    loose_.assign([this](auto name) { parts_.for_each_loose(name); });
  }

  [[nodiscard]] std::span<std::byte> payload(std::size_t k, piece_id piece) const {
    return {payloads_ + parts_.payloads().offset(k, coded_.slot(piece)),
            traffic_.coder().encoded_bytes(of_.extents.elements(k, piece))};
  }
  /// Where an uncoded piece is, in the type of `to`.
  [[nodiscard]] element_range landing(std::size_t k, piece_id piece) const {
    if (of_.holds(piece.chunk)) return of_.replica_piece(k, piece);
    return {pieces_ + parts_.pieces().offset(k, loose_.slot(piece)), of_.extents.elements(k, piece),
            of_.to[k].element_bytes};
  }

  /// Calls visit(k, piece) for each tensor of each piece that this rank owns and sends.
  template <class Visit>
  void for_each_shared_piece(Visit visit) const {
    for (auto const chunk : of_.plan.shared(of_.me))
      for (int piece = 0; piece < of_.plan.pieces(); ++piece)
        for (std::size_t k = 0; k < tensors(); ++k) visit(k, piece_id{chunk, piece});
  }
  /// Encodes a piece that this rank owns, and decodes it as the others do.
  void encode(sum_batch& decoded, std::size_t k, piece_id piece) const {
    auto const& coder = traffic_.coder();
    encode_on(decoded.comm(), coder, coder.of_source, of_.from[k].type, of_.own_piece(k, piece),
              nullptr, payload(k, piece));
    decode(decoded, k, piece);
  }
  /// Decodes a piece into its slot, if it has one.
  void decode(sum_batch& decoded, std::size_t k, piece_id piece) const {
    if (of_.holds(piece.chunk))
      decode_on(decoded, traffic_.coder(), payload(k, piece), of_.to[k].type,
                of_.replica_piece(k, piece));
  }

  gather_buffers of_;
  coded_traffic traffic_;
  coded_gather_scratch parts_;
  piece_list coded_;
  piece_list loose_;
  std::byte* payloads_ = nullptr;
  std::byte* pieces_ = nullptr;
};

}  // namespace fssdp::detail
