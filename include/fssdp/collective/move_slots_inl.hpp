// SPDX-License-Identifier: Apache-2.0
/// How a rank makes its moves between slots.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/move_slots.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/slot_array.hpp"

namespace fssdp::detail {

/// The slots of one rank during the moves.
class moving_slots {
  [[nodiscard]] auto scratch_slots() const {
    return slot_array{
        static_cast<std::size_t>(moves_.scratch_slots()), slots_.size(),
        [this](std::size_t k) { return slots_[k].elements * slots_[k].element_bytes; }};
  }

 public:
  moving_slots(communicator_ref const& comm, slot_moves const& moves,
               std::span<tensor_view const> slots, pass_scratch& scratch)
      : comm_{comm}, moves_{moves}, slots_{slots} {
    if (scratch_slots().bytes() != 0) scratch_ = scratch.cut(0, scratch_slots().bytes()).data;
    for (auto slot = static_cast<std::size_t>(moves.scratch_slots()); slot > 0; --slot)
      free_.push_back(slot - 1);
  }

  void run() {
    comm_.agree(moves_.hash_value());
    auto const all = moves_.moves();
    auto first = std::size_t{0};
    for (int round = 0; round < moves_.rounds(); ++round) {
      auto last = first;
      while (last < all.size() && all[last].round == round) ++last;
      exchange(round, all.subspan(first, last - first));
      place(round);
      first = last;
    }
  }

 private:
  /// An expert that waits for its slot.
  struct waiting {
    slot_move move;
    std::size_t at;
  };

  [[nodiscard]] bool is_mine(physical_id slot) const {
    return moves_.rank_of(slot) == comm_.rank();
  }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t k, physical_id slot) const {
    return slots_[k][moves_.slot_on_rank(slot)].bytes();
  }
  [[nodiscard]] std::span<std::byte> beside(std::size_t k, std::size_t at) const {
    return {scratch_ + scratch_slots().offset(k, at), slots_[k].elements * slots_[k].element_bytes};
  }

  /// Runs one round: experts are received in their slots, or in scratch while the slot is in use.
  void exchange(int round, std::span<slot_move const> moves) {
    landing_.clear();
    for (auto const& move : moves) {
      auto& at = landing_.emplace_back(none);
      if (!move.waits || !is_mine(move.to)) continue;
      at = free_.back();
      free_.pop_back();
      waiting_.push_back({move, at});
    }
    auto const into = [&](std::size_t k, std::size_t i) {
      return landing_[i] == none ? bytes(k, moves[i].to) : beside(k, landing_[i]);
    };
    for (std::size_t i = 0; i < moves.size(); ++i)
      if (is_mine(moves[i].from) && is_mine(moves[i].to))
        for (std::size_t k = 0; k < slots_.size(); ++k)
          copy_on(comm_, bytes(k, moves[i].from), into(k, i));
    comm_.exchange([&](batch_ref const& batch) {
      batch.label({moves_.hash_value(), round});
      for (std::size_t i = 0; i < moves.size(); ++i)
        for (std::size_t k = 0; k < slots_.size(); ++k) {
          auto const& move = moves[i];
          if (is_mine(move.from) == is_mine(move.to)) continue;
          if (is_mine(move.from))
            batch.send(bytes(k, move.from), moves_.rank_of(move.to));
          else
            batch.recv(into(k, i), moves_.rank_of(move.from));
        }
    });
  }
  /// Copies waiting experts into slots whose old expert is no longer needed.
  void place(int round) {
    std::erase_if(waiting_, [&](waiting const& one) {
      if (one.move.placed != round) return false;
      for (std::size_t k = 0; k < slots_.size(); ++k)
        copy_on(comm_, beside(k, one.at), bytes(k, one.move.to));
      free_.push_back(one.at);
      return true;
    });
  }

  static constexpr auto none = static_cast<std::size_t>(-1);

  communicator_ref comm_;
  slot_moves const& moves_;
  std::span<tensor_view const> slots_;
  std::byte* scratch_ = nullptr;
  std::vector<std::size_t> free_;     // of the scratch
  std::vector<std::size_t> landing_;  // of the moves of a round: the scratch slot, or none
  std::vector<waiting> waiting_;
};

FSSDP_INLINE void slot_moves_call::check(int ranks) const {
  constexpr auto name = "move_slots";
  require(ranks == moves_.ranks(), name, ": the communicator has ", ranks, " ranks; expected ",
          moves_.ranks(), ", as in the moves");
  auto const named = named_tensors{"slots", slots_.all()};
  check_slots(name, named, static_cast<std::size_t>(moves_.slots_per_rank()), "those of the maps");
  check_disjoint(name, named);
}
FSSDP_INLINE void slot_moves_call::run(communicator_ref const& comm) const {
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  moving_slots{comm, moves_, slots_.all(), scratch}.run();
}

}  // namespace fssdp::detail
