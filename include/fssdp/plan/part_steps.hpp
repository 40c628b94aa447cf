// SPDX-License-Identifier: Apache-2.0
/// Divides a transfer into steps, so that little is staged at a time if both distributions use the
/// same memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/plan/blocked_writes.hpp"
#include "fssdp/plan/moved_parts.hpp"

namespace fssdp::detail {

/// The slots of one tensor before and after, tight and from the same address on.
struct slots_in_place {
  std::size_t from_elements = 0;  ///< of a slot
  std::size_t to_elements = 0;
  std::size_t from_bytes = 1;  ///< of an element
  std::size_t to_bytes = 1;

  /// The most that a step brings to a rank, or takes from it; twice as much may be set aside there.
  [[nodiscard]] std::size_t chunk() const {
    return std::max(from_elements, to_elements) * to_bytes;
  }
  [[nodiscard]] byte_interval source(slot_part const& part, std::size_t elements) const {
    return at(part.slot * from_elements + part.first, elements, from_bytes);
  }
  [[nodiscard]] byte_interval target(slot_part const& part, std::size_t elements) const {
    return at(part.slot * to_elements + part.first, elements, to_bytes);
  }

 private:
  [[nodiscard]] static byte_interval at(std::size_t first, std::size_t elements,
                                        std::size_t bytes) {
    return {first * bytes, (first + elements) * bytes};
  }
};

/// Simulates the steps on all ranks. A step first takes the parts that can be written at once on
/// all their targets. Then it takes parts that must be staged, while there is room for them, and
/// follows each with the parts that occupy its target, so that a ring of parts is closed in one
/// step if possible.
///
/// If every part has one target and fills its slot, the room (two chunks) suffices: for every
/// staged part some slot is empty whose part is still to come.
/// @cost O(steps * parts * log parts); a pure function
class part_steps {
 public:
  /// @param local what each rank copies itself
  part_steps(std::span<sent_part const> parts, std::span<std::vector<local_part> const> local,
             slots_in_place const& slots)
      : parts_{parts}, slots_{slots}, pending_(local.size()) {
    list(local);
    while (left_ != 0) next_step();
  }

  /// Which parts are in each step.
  [[nodiscard]] std::vector<std::vector<std::size_t>> take() { return std::move(steps_); }

 private:
  /// One target of a part.
  struct arrival {
    std::size_t part;
    std::size_t bytes;
    bool waits = false;
  };
  struct on_rank {
    std::vector<arrival> arrivals;     // the first of the writes
    std::size_t sends = 0;             // the first of the reads, before those of copies
    std::vector<std::size_t> senders;  // [sends]: their parts
    std::vector<char> copied;
    std::vector<char> over_itself;  // copies whose source and target overlap
    blocked_writes blocked{{}, {}};
    std::size_t incoming = 0;  // bytes, in this step
    std::size_t outgoing = 0;
    std::size_t aside = 0;  // bytes that wait in the scratch
  };
  struct place {
    rank_id rank;
    std::size_t at;
  };

  void list(std::span<std::vector<local_part> const> local) {
    ranks_.resize(local.size());
    auto reads = std::vector<std::vector<byte_interval>>(local.size());
    auto writes = reads;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      auto const& part = parts_[p];
      reads[part.source.index()].push_back(slots_.source(part.from, part.elements));
      auto& source = ranks_[part.source.index()];
      reads_.push_back(source.sends++);
      source.senders.push_back(p);
      auto& places = writes_.emplace_back();
      for (auto const& [rank, target] : part.targets) {
        places.push_back({rank, ranks_[rank.index()].arrivals.size()});
        ranks_[rank.index()].arrivals.push_back({p, bytes(p)});
        writes[rank.index()].push_back(slots_.target(target, part.elements));
      }
      pending_[part.targets.front().first.index()].push_back(p);
    }
    left_ = parts_.size();
    for (std::size_t rank = 0; rank < local.size(); ++rank) {
      auto& here = ranks_[rank];
      for (auto const& part : local[rank]) {
        auto const from = slots_.source(part.from, part.elements);
        auto const to = slots_.target(part.to, part.elements);
        if (from == to && slots_.from_bytes == slots_.to_bytes) continue;  // stays where it is
        reads[rank].push_back(from);
        writes[rank].push_back(to);
        here.over_itself.push_back(from.overlaps(to) ? 1 : 0);
      }
      here.copied.resize(here.over_itself.size());
      here.blocked = blocked_writes{reads[rank], writes[rank]};
      for (std::size_t copy = 0; copy < here.copied.size(); ++copy)
        if (is_copied_now(here, copy)) finish(here, here.sends + copy);
    }
  }

  [[nodiscard]] std::size_t bytes(std::size_t part) const {
    return parts_[part].elements * slots_.to_bytes;
  }
  [[nodiscard]] bool waits(place const& target) const {
    return ranks_[target.rank.index()].blocked.left(target.at) != 0;
  }
  [[nodiscard]] bool is_direct(std::size_t part) const {
    return std::ranges::none_of(writes_[part], [this](place const& to) { return waits(to); });
  }
  [[nodiscard]] bool fits(std::size_t part) const {
    auto const has_room = [&](std::size_t used) {
      return used == 0 || used + bytes(part) <= slots_.chunk();
    };
    return has_room(ranks_[parts_[part].source.index()].outgoing) &&
           std::ranges::all_of(writes_[part], [&](place const& to) {
             return has_room(ranks_[to.rank.index()].incoming);
           });
  }
  [[nodiscard]] bool has_room_aside(std::size_t part) const {
    return std::ranges::all_of(writes_[part], [&](place const& to) {
      return !waits(to) || ranks_[to.rank.index()].aside + bytes(part) <= 2 * slots_.chunk();
    });
  }

  void next_step() {
    steps_.emplace_back();
    taken_.resize(parts_.size());
    for (auto& rank : ranks_) rank.incoming = rank.outgoing = 0;
    order_by_load();
    take_where([this](std::size_t part) { return is_direct(part); });
    take_where([this](std::size_t part) { return has_room_aside(part); });
    if (steps_.back().empty()) take(cheapest());
    finish_step();
  }
  /// Takes what may be taken, first for ranks with the most to get, from those with the most to
  /// send.
  template <class May>
  void take_where(May may) {
    for (auto const rank : busiest_)
      for (auto const part : pending_[rank]) {
        if (ranks_[rank].incoming >= slots_.chunk()) break;
        if (taken_[part] == 0 && fits(part) && may(part)) take_and_follow(part);
      }
  }
  void order_by_load() {
    auto to_send = std::vector<std::size_t>(ranks_.size());
    auto to_get = to_send;
    for (std::size_t rank = 0; rank < pending_.size(); ++rank)
      for (auto const part : pending_[rank]) {
        to_send[parts_[part].source.index()] += bytes(part);
        for (auto const& to : writes_[part]) to_get[to.rank.index()] += bytes(part);
      }
    busiest_.resize(ranks_.size());
    std::iota(busiest_.begin(), busiest_.end(), std::size_t{0});
    std::ranges::stable_sort(busiest_, std::ranges::greater{},
                             [&](std::size_t rank) { return to_get[rank]; });
    for (auto& list : pending_)
      std::ranges::stable_sort(list, std::ranges::greater{}, [&](std::size_t part) {
        return to_send[parts_[part].source.index()];
      });
  }
  /// Takes a part, what it waits for, what that waits for, and so on, while it can be had.
  void take_and_follow(std::size_t part) {
    auto open = std::vector{part};
    while (!open.empty()) {
      auto const next = open.back();
      open.pop_back();
      if (taken_[next] != 0 || !fits(next) || !has_room_aside(next)) continue;
      take(next);
      for (auto const& to : writes_[next]) {
        auto const& rank = ranks_[to.rank.index()];
        if (waits(to))
          for (auto const read : rank.blocked.readers(to.at))
            if (read < rank.sends) open.push_back(rank.senders[read]);
      }
    }
  }
  void take(std::size_t part) {
    taken_[part] = 1;
    steps_.back().push_back(part);
    ranks_[parts_[part].source.index()].outgoing += bytes(part);
    for (auto const& to : writes_[part]) {
      auto& rank = ranks_[to.rank.index()];
      rank.incoming += bytes(part);
      if (!waits(to)) continue;
      rank.arrivals[to.at].waits = true;
      rank.aside += bytes(part);
    }
  }
  /// Where nothing has room: what is set aside for, less what is written as it leaves, is least.
  [[nodiscard]] std::size_t cheapest() const {
    auto best = std::size_t{0};
    auto least = std::numeric_limits<long long>::max();
    for (auto const& list : pending_)
      for (auto const part : list) {
        auto cost = 0LL;
        for (auto const& to : writes_[part])
          if (waits(to)) cost += static_cast<long long>(bytes(part));
        auto const& source = ranks_[parts_[part].source.index()];
        for (auto const write : source.blocked.waiting(reads_[part]))
          if (write < source.arrivals.size() && source.arrivals[write].waits &&
              source.blocked.left(write) == 1)
            cost -= static_cast<long long>(source.arrivals[write].bytes);
        if (cost >= least) continue;
        least = cost;
        best = part;
      }
    return best;
  }

  void finish_step() {
    for (auto const part : steps_.back()) finish(ranks_[parts_[part].source.index()], reads_[part]);
    left_ -= steps_.back().size();
    std::ranges::sort(steps_.back());
    for (auto& list : pending_)
      std::erase_if(list, [this](std::size_t part) { return taken_[part] != 0; });
  }
  /// A rank needs no longer what it has sent, or copied: copies that have waited for that are made.
  static void finish(on_rank& here, std::size_t read) {
    auto over = std::vector{read};
    while (!over.empty()) {
      auto const next = over.back();
      over.pop_back();
      here.blocked.finish(next, [&](std::size_t write) {
        if (write >= here.arrivals.size()) {
          auto const copy = write - here.arrivals.size();
          if (is_copied_now(here, copy)) over.push_back(here.sends + copy);
        } else if (auto& one = here.arrivals[write]; one.waits && here.blocked.left(write) == 0) {
          one.waits = false;
          here.aside -= one.bytes;
        }
      });
    }
  }
  /// Makes a copy if nobody else needs what lies there.
  [[nodiscard]] static bool is_copied_now(on_rank& here, std::size_t copy) {
    auto const left = here.blocked.left(here.arrivals.size() + copy);
    if (left > static_cast<std::size_t>(here.over_itself[copy])) return false;
    return std::exchange(here.copied[copy], 1) == 0;
  }

  std::span<sent_part const> parts_;
  slots_in_place slots_;
  std::vector<on_rank> ranks_;
  std::vector<std::size_t> reads_;                 // [parts]: which read of its source
  std::vector<std::vector<place>> writes_;         // [parts][targets]
  std::vector<std::vector<std::size_t>> pending_;  // [ranks]: parts, by their first target
  std::vector<std::size_t> busiest_;               // ranks, those with the most to get first
  std::vector<char> taken_;
  std::vector<std::vector<std::size_t>> steps_;
  std::size_t left_ = 0;
};

}  // namespace fssdp::detail
