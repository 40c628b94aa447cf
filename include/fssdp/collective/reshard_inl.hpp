// SPDX-License-Identifier: Apache-2.0
/// How a rank moves its chunks in a reshard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/slot_array.hpp"

namespace fssdp::detail {

/// The shard of one rank while chunks are moved. A place is a slot of the shard or, numbered after
/// these, a slot of the scratch.
class moving_shard {
  [[nodiscard]] std::size_t slot_bytes(std::size_t k) const {
    return tensors_[k].elements * tensors_[k].element_bytes;
  }
  [[nodiscard]] auto scratch_slots() const {
    return slot_array{static_cast<std::size_t>(plan_.scratch_slots()), tensors_.size(),
                      [this](std::size_t k) { return slot_bytes(k); }};
  }

 public:
  moving_shard(communicator_ref const& comm, reshard_plan const& plan,
               std::span<tensor_view const> tensors, pass_scratch& scratch)
      : comm_{comm},
        plan_{plan},
        me_{comm.rank()},
        tensors_{tensors},
        scratch_{scratch.cut(0, scratch_slots().bytes()).data} {
    for (auto const chunk : plan.before(me_)) place_of_.emplace(chunk, place_of_.size());
    for (auto slot = plan.slots(me_); slot > place_of_.size(); --slot) free_.push_back(slot - 1);
  }

  void run() {
    comm_.agree(plan_.hash_value());
    for (int round = 0; round < plan_.rounds(); ++round) exchange(round);
    sort();
  }

 private:
  /// The bytes of tensor k at a place.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t k, std::size_t place) const {
    if (place < plan_.slots(me_)) return tensors_[k][place].bytes();
    auto const slot = place - plan_.slots(me_);
    return {scratch_ + scratch_slots().offset(k, slot), slot_bytes(k)};
  }
  void copy(std::size_t from, std::size_t to) const {
    for (std::size_t k = 0; k < tensors_.size(); ++k) copy_on(comm_, bytes(k, from), bytes(k, to));
  }

  /// Chunks are received in free slots, then in scratch; from scratch they move to slots that have
  /// become free.
  void exchange(int round) {
    auto const sends = plan_.sends(me_, round);
    auto const receives = plan_.receives(me_, round);
    auto landing = std::vector<std::size_t>{};
    for (std::size_t i = 0; i < receives.size(); ++i)
      landing.push_back(i < free_.size() ? free_[free_.size() - 1 - i]
                                         : plan_.slots(me_) + i - free_.size());
    comm_.exchange([&](batch_ref const& batch) {
      batch.label({plan_.hash_value(), round});
      for (auto const& move : sends)
        for (std::size_t k = 0; k < tensors_.size(); ++k)
          batch.send(bytes(k, place_of_.at(move.chunk)), move.destination);
      for (std::size_t i = 0; i < receives.size(); ++i)
        for (std::size_t k = 0; k < tensors_.size(); ++k)
          batch.recv(bytes(k, landing[i]), receives[i].source);
    });
    free_.resize(free_.size() - std::min(free_.size(), receives.size()));
    for (auto const& move : sends) {
      free_.push_back(place_of_.at(move.chunk));
      place_of_.erase(move.chunk);
    }
    for (std::size_t i = 0; i < receives.size(); ++i) {
      if (landing[i] >= plan_.slots(me_)) {
        copy(landing[i], free_.back());
        landing[i] = free_.back();
        free_.pop_back();
      }
      place_of_.emplace(receives[i].chunk, landing[i]);
    }
  }

  /// Moves every chunk to its slot of the new layout: first along chains that end in an empty slot,
  /// then around cycles, for each of which one chunk is set aside.
  void sort() {
    auto const after = plan_.after(me_);
    for (auto hole : free_)
      while (hole < after.size()) hole = fetch(after[hole], hole);
    auto const aside = plan_.slots(me_);
    for (std::size_t slot = 0; slot < after.size(); ++slot) {
      if (place_of_.at(after[slot]) == slot) continue;
      copy(slot, aside);
      auto hole = slot;
      while (place_of_.at(after[hole]) != slot) hole = fetch(after[hole], hole);
      copy(aside, hole);
      place_of_.at(after[hole]) = hole;
    }
  }
  /// Copies a chunk to a place and returns the place that has become free.
  std::size_t fetch(chunk_id chunk, std::size_t to) {
    auto& place = place_of_.at(chunk);
    copy(place, to);
    return std::exchange(place, to);
  }

  communicator_ref comm_;
  reshard_plan const& plan_;
  rank_id me_;
  std::span<tensor_view const> tensors_;
  std::byte* scratch_;
  std::map<chunk_id, std::size_t> place_of_;
  std::vector<std::size_t> free_;  // slots
};

FSSDP_INLINE void reshard_call::check(rank_id rank, int ranks) const {
  constexpr auto name = "reshard";
  require(ranks == plan_.ranks(), name, ": the communicator has ", ranks, " ranks; expected ",
          plan_.ranks(), ", as in the plan");
  auto const needed = plan_.slots(rank);
  for (auto const& tensor : shard_.all())
    require(tensor.slots >= needed, name, ": shard has ", tensor.slots, " slots; expected ", needed,
            " or more, as both layouts need them");
  auto const named = named_tensors{"shard", shard_.all()};
  check_rows(name, named, {});
  check_memory(name, named);
  check_disjoint(name, named);
}
FSSDP_INLINE void reshard_call::run(communicator_ref const& comm) const {
  auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
  moving_shard{comm, plan_, shard_.all(), scratch}.run();
}

}  // namespace fssdp::detail
