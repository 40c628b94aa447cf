// SPDX-License-Identifier: Apache-2.0
/// How a gather runs on one rank: where every piece lies, and the rounds of the plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/piece_extents.hpp"
#include "fssdp/collective/round_messages.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// What a gather reads and writes on one rank, by chunk and by piece.
struct gather_buffers {
  transfer_plan const& plan;
  rank_id me;
  std::span<tensor_view const> from;
  std::span<tensor_view const> to;
  std::span<expert_id const> slots;  ///< the experts in `to`, ascending
  find_conversion find;              ///< from types of `from` to those of `to`
  piece_extents extents{plan, tensor_sizes{to}};
  std::uint64_t label = plan.hash_value();  ///< by which ranks detect that they disagree

  [[nodiscard]] bool owns(chunk_id chunk) const { return plan.owner(chunk) == me; }
  [[nodiscard]] bool holds(chunk_id chunk) const { return plan.where().holds(me, chunk.expert); }
  [[nodiscard]] bool has_slot(chunk_id chunk) const {
    return std::ranges::binary_search(slots, chunk.expert);
  }

  /// From the type of tensor k of `from` to that of `to`.
  [[nodiscard]] element_conversion conversion(std::size_t k) const {
    return find(from[k].type, to[k].type);
  }
  [[nodiscard]] bool changes_type(std::size_t k) const { return from[k].type != to[k].type; }
  /// Whether any tensor has different types in `from` and `to`.
  [[nodiscard]] bool changes_types() const {
    for (std::size_t k = 0; k < to.size(); ++k)
      if (changes_type(k)) return true;
    return false;
  }

  /// A chunk in this rank's shard, without padding.
  [[nodiscard]] element_range own(std::size_t k, chunk_id chunk) const {
    return from[k][plan.owner_slot(chunk)].part(0, extents.slice(k, chunk).elements);
  }
  [[nodiscard]] element_range own_piece(std::size_t k, piece_id piece) const {
    return extents.cut_slice(own(k, piece.chunk), k, piece);
  }
  /// A chunk in its expert's slot.
  [[nodiscard]] element_range replica(std::size_t k, chunk_id chunk) const {
    auto const [first, elements] = extents.slice(k, chunk);
    return to[k][transfer_plan::slot_in(slots, chunk.expert)].part(first, elements);
  }
  [[nodiscard]] element_range replica_piece(std::size_t k, piece_id piece) const {
    return extents.cut_slice(replica(k, piece.chunk), k, piece);
  }

  /// Calls visit(chunk) for every chunk that this rank owns and has a slot for.
  template <class Visit>
  void for_each_own_chunk(Visit visit) const {
    for (auto const expert : slots)
      for (auto const slice : first_n<slice_id>(plan.slices()))
        if (owns({expert, slice})) visit(chunk_id{expert, slice});
  }
  /// Copies a chunk of this rank's shard into its slot.
  void place(conversion_batch& batch, chunk_id chunk) const {
    for (std::size_t k = 0; k < to.size(); ++k)
      batch.add(conversion(k), own(k, chunk), replica(k, chunk));
  }
};

/// How many converted chunks a rank needs scratch for, given the slots of its `to`: none if no
/// tensor changes its type, or if `to` has slots for all chunks that it sends.
[[nodiscard]] inline std::size_t converted_chunks(transfer_plan const& plan, rank_id rank,
                                                  std::span<expert_id const> slots) {
  auto const has_slot = [&](chunk_id chunk) {
    return std::ranges::binary_search(slots, chunk.expert);
  };
  auto const shared = plan.shared(rank);
  return std::ranges::all_of(shared, has_slot) ? 0 : shared.size();
}

/// The scratch of one rank in a gather: the chunks that it converts, with room for the tensors that
/// change their type; and the pieces that it only relays, with room for all tensors.
class gather_scratch {
 public:
  explicit gather_scratch(gather_buffers const& of)
      : converted_{of.changes_types() ? converted_chunks(of.plan, of.me, of.slots) : 0},
        relayed_{of.plan.relayed(of.me).size()},
        of_{of},
        sizes_{element_sizes::of(of.to)} {}

  [[nodiscard]] auto converted() const {
    return slot_array{converted_, of_.extents.tensors(), [this](std::size_t k) {
                        if (!of_.changes_type(k)) return std::size_t{0};
                        return unpadded_bytes(1, of_.extents.slice_room(k), sizes_[k]);
                      }};
  }
  [[nodiscard]] auto relayed() const { return element_slots(relayed_, of_.extents, sizes_); }
  [[nodiscard]] std::size_t bytes() const {
    return add_bytes(converted().bytes(), relayed().bytes());
  }

 private:
  std::size_t converted_;  // chunks
  std::size_t relayed_;    // pieces
  gather_buffers of_;
  element_sizes sizes_;
};

/// Elements travel from shard to slot, in the type of the slot.
class gather_memory {
 public:
  explicit gather_memory(gather_buffers const& of) : of_{of}, parts_{of} {}

  [[nodiscard]] std::size_t tensors() const { return of_.to.size(); }
  [[nodiscard]] bool fills_slots(chunk_id chunk) const { return of_.extents.fills_slots(chunk); }
  [[nodiscard]] std::uint64_t label() const { return of_.label; }

  /// Copies this rank's own chunks into `to`, and converts what it sends.
  void begin(communicator_ref const& comm, pass_scratch& scratch) {
    if (parts_.bytes() != 0) divide(scratch.cut(0, parts_.bytes()).data);
    make_conversions(comm, [&](conversion_batch& batch) {
      of_.for_each_own_chunk([&](chunk_id chunk) { of_.place(batch, chunk); });
      if (of_.changes_types()) convert_for_others(batch);
    });
  }

  [[nodiscard]] std::span<std::byte> incoming(std::size_t k, piece_id piece) const {
    return landing(k, piece).bytes();
  }
  [[nodiscard]] std::span<std::byte const> outgoing(std::size_t k, piece_id piece) const {
    if (of_.owns(piece.chunk)) {
      if (!of_.changes_type(k)) return of_.own_piece(k, piece).bytes();
      if (!of_.has_slot(piece.chunk))
        return of_.extents.cut_slice(converted(k, piece.chunk), k, piece).bytes();
    }
    return landing(k, piece).bytes();
  }
  /// Nothing to do: the piece was received where it belongs.
  void arrived(sum_batch&, std::size_t, piece_id) const {}

 private:
  /// Divides the scratch: converted chunks, then relayed pieces.
  void divide(std::byte* scratch) {
    converted_ = scratch;
    relayed_ = converted_ + parts_.converted().bytes();
  }

  /// Where a remote piece is received: in its slot, or in the scratch if this rank does not hold
  /// its expert.
  [[nodiscard]] element_range landing(std::size_t k, piece_id piece) const {
    if (of_.holds(piece.chunk)) return of_.replica_piece(k, piece);
    auto const slot = transfer_plan::slot_in(of_.plan.relayed(of_.me), piece);
    return {relayed_ + parts_.relayed().offset(k, slot), of_.extents.elements(k, piece),
            of_.to[k].element_bytes};
  }
  /// Where the scratch has the converted copy of a chunk of this rank's shard.
  [[nodiscard]] element_range converted(std::size_t k, chunk_id chunk) const {
    auto const slot = transfer_plan::slot_in(of_.plan.shared(of_.me), chunk);
    return {converted_ + parts_.converted().offset(k, slot), of_.extents.slice(k, chunk).elements,
            of_.to[k].element_bytes};
  }
  /// Converts the chunks that this rank sends and that have no slot in its own `to`.
  void convert_for_others(conversion_batch& batch) const {
    for (auto const chunk : of_.plan.shared(of_.me))
      if (!of_.has_slot(chunk))
        for (std::size_t k = 0; k < tensors(); ++k)
          if (of_.changes_type(k))
            batch.add(of_.conversion(k), of_.own(k, chunk), converted(k, chunk));
  }

  gather_buffers of_;
  gather_scratch parts_;
  std::byte* converted_ = nullptr;
  std::byte* relayed_ = nullptr;
};

/// Runs the transfers of the plan. The memory knows where the bytes of a piece are:
/// `begin(comm, scratch)` prepares what this rank owns; `outgoing(k, piece)` and
/// `incoming(k, piece)` return the bytes of tensor k of a piece; `arrived(decoded, k, piece)` is
/// called when it was received, and adds what it decodes to the batch. Consecutive pieces of a
/// chunk that `fills_slots` are contiguous.
template <class Memory>
class gather_pass {
 public:
  gather_pass(transfer_plan const& plan, rank_id me, Memory const& memory)
      : plan_{plan}, me_{me}, memory_{memory} {}

  void run(communicator_ref const& comm, pass_scratch& scratch) {
    memory_.begin(comm, scratch);
    comm.agree(memory_.label());
    if (comm.forwards() && plan_.rounds() > 1) return forward(comm);
    for (int round = 0; round < plan_.rounds(); ++round) {
      comm.exchange([&](batch_ref const& batch) { name(batch, round); });
      form_sums(comm, [&](sum_batch& decoded) {
        for (auto const& t : plan_.receives(me_, round))
          for (std::size_t k = 0; k < memory_.tensors(); ++k) memory_.arrived(decoded, k, t.what());
      });
    }
  }

 private:
  /// Adds the messages of a round to a batch.
  void name(batch_ref const& batch, int round) const {
    batch.label({memory_.label(), round});
    auto const alike = [this](transfer const& a, transfer const&) {
      return memory_.fills_slots(a.chunk);
    };
    round_messages{plan_.sends(me_, round), alike}.for_each([&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) {
        auto const piece = [&](transfer const& t) { return memory_.outgoing(k, t.what()); };
        batch.send(message.joined(piece), message.front().destination);
      }
    });
    round_messages{plan_.receives(me_, round), alike}.for_each([&](auto const& message) {
      for (std::size_t k = 0; k < memory_.tensors(); ++k) {
        auto const piece = [&](transfer const& t) { return memory_.incoming(k, t.what()); };
        batch.recv(message.joined(piece), message.front().source);
      }
    });
  }

  /// All rounds in one exchange: a piece is relayed as soon as it was received.
  void forward(communicator_ref const& comm) {
    auto const tensors = memory_.tensors();
    auto const in = plan_.receives(me_);
    comm.exchange_forwarding(
        [&](batch_ref const& batch) {
          batch.label({memory_.label(), 2 * plan_.rounds()});
          for (auto const& t : plan_.sends(me_))
            for (std::size_t k = 0; k < tensors; ++k)
              if (plan_.owner(t.chunk) == me_)
                batch.send(memory_.outgoing(k, t.what()), t.destination);
              else
                batch.hold(memory_.outgoing(k, t.what()), t.destination);
          for (auto const& t : in)
            for (std::size_t k = 0; k < tensors; ++k)
              batch.recv(memory_.incoming(k, t.what()), t.source);
        },
        [&](std::size_t wanted, std::span<std::byte const>, gate_ref const& gate) {
          auto const k = wanted % tensors;
          for (auto const follower : plan_.followers(me_, wanted / tensors))
            gate.release(static_cast<std::size_t>(follower) * tensors + k);
          form_sums(comm, [&](sum_batch& decoded) {
            memory_.arrived(decoded, k, in[wanted / tensors].what());
          });
        });
  }

  transfer_plan const& plan_;
  rank_id me_;
  Memory memory_;
};

}  // namespace fssdp::detail
