// SPDX-License-Identifier: Apache-2.0
/// In which order a rank writes to memory that it still reads.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/memory/first_fit.hpp"
#include "fssdp/plan/blocked_writes.hpp"

namespace fssdp::detail {

/// What a rank reads and writes in the steps of a transfer, as intervals of addresses.
struct in_place_work {
  /// Sent to others. A converted copy is made before anything of the step arrives.
  struct send {
    byte_interval from;
    std::size_t step = 0;
    bool is_converted = false;
  };
  struct arrival {
    byte_interval to;
    std::size_t step = 0;
  };
  /// Moved within the rank; parts that are at their target already are left out.
  struct copy {
    byte_interval from;
    byte_interval to;
  };
  std::size_t steps = 0;
  std::vector<send> sends;
  std::vector<arrival> arrivals;
  std::vector<copy> copies;
};

/// What is written where, and when: nothing before all reads of the memory that it overlaps.
struct in_place_order {
  static constexpr auto none = std::numeric_limits<std::size_t>::max();

  enum class how {
    copied,  ///< a copy, from its source to its target
    aside,   ///< a copy, from its source to the staging area
    placed,  ///< a copy or an arrival, from there to its target
  };
  struct move {
    in_place_order::how how;
    bool arrives;      ///< else it is a copy
    std::size_t item;  ///< which of them
    std::size_t at;    ///< in the staging area; none if it is not there
    friend bool operator==(move const&, move const&) = default;
  };
  /// Moves of which none reads what another one writes.
  struct wave {
    std::size_t before;  ///< this step; the number of steps: after all of them
    std::vector<move> moves;
  };
  std::vector<std::size_t> landing;  ///< [arrivals]: where in the staging area, or none: its target
  std::vector<wave> waves;
  std::size_t staging_bytes = 0;
};

/// Finds the order. An arrival lands at its target if nothing is left to read there; otherwise it
/// is staged, and placed as soon as possible. Copies are made as early as possible. A copy that
/// overlaps itself goes through the staging area. If copies wait for each other after the last
/// step, one of them is staged.
class in_place_ordering {
 public:
  explicit in_place_ordering(in_place_work const& work)
      : work_{work},
        blocked_{reads_of(work), writes_of(work)},
        at_(work.arrivals.size() + work.copies.size(), in_place_order::none),
        is_read_(work.copies.size()) {
    result_.landing.assign(work.arrivals.size(), in_place_order::none);
    for (std::size_t copy = 0; copy < work.copies.size(); ++copy) note(arrivals() + copy);
    auto const sends = by_step(work.sends);
    auto const arriving = by_step(work.arrivals);
    for (std::size_t step = 0; step < work.steps; ++step) {
      write_what_can_be(step);
      read(sends[step], true);
      land(arriving[step]);
      read(sends[step], false);
    }
    write_what_can_be(work.steps);
    for (std::size_t copy = 0; copy < work.copies.size(); ++copy)
      if (is_read_[copy] == 0) {
        result_.waves.push_back({work.steps, {set_aside(copy)}});
        finish(work_.sends.size() + copy);
        write_what_can_be(work.steps);
      }
    result_.staging_bytes = staging_.most();
  }
  [[nodiscard]] in_place_order take() { return std::move(result_); }

 private:
  using how = in_place_order::how;

  [[nodiscard]] static std::vector<byte_interval> reads_of(in_place_work const& work) {
    auto list = std::vector<byte_interval>{};
    for (auto const& send : work.sends) list.push_back(send.from);
    for (auto const& copy : work.copies) list.push_back(copy.from);
    return list;
  }
  [[nodiscard]] static std::vector<byte_interval> writes_of(in_place_work const& work) {
    auto list = std::vector<byte_interval>{};
    for (auto const& arrival : work.arrivals) list.push_back(arrival.to);
    for (auto const& copy : work.copies) list.push_back(copy.to);
    return list;
  }
  template <class Item>
  [[nodiscard]] std::vector<std::vector<std::size_t>> by_step(
      std::vector<Item> const& items) const {
    auto lists = std::vector<std::vector<std::size_t>>(work_.steps);
    for (std::size_t i = 0; i < items.size(); ++i) lists[items[i].step].push_back(i);
    return lists;
  }

  [[nodiscard]] std::size_t arrivals() const { return work_.arrivals.size(); }
  [[nodiscard]] bool arrives(std::size_t write) const { return write < arrivals(); }
  [[nodiscard]] std::size_t bytes(std::size_t write) const {
    return arrives(write) ? work_.arrivals[write].to.bytes()
                          : work_.copies[write - arrivals()].to.bytes();
  }
  [[nodiscard]] bool overlaps_itself(std::size_t copy) const {
    return work_.copies[copy].from.overlaps(work_.copies[copy].to);
  }

  /// Remembers a write that need not wait any longer.
  void note(std::size_t write) {
    auto const left = blocked_.left(write);
    auto const copy = write - arrivals();
    auto const is_next = at_[write] != in_place_order::none ? left == 0
                         : arrives(write)                   ? false  // has not arrived yet
                         : is_read_[copy] != 0              ? false  // was copied already
                                               : left == (overlaps_itself(copy) ? 1U : 0U);
    if (is_next) ready_.push_back(write);
  }
  void finish(std::size_t read) {
    blocked_.finish(read, [this](std::size_t write) { note(write); });
  }
  void read(std::span<std::size_t const> sends, bool converted) {
    for (auto const send : sends)
      if (work_.sends[send].is_converted == converted) finish(send);
  }
  void land(std::span<std::size_t const> arriving) {
    for (auto const arrival : arriving)
      if (blocked_.left(arrival) != 0)
        result_.landing[arrival] = at_[arrival] = staging_.allocate(bytes(arrival));
  }

  [[nodiscard]] in_place_order::move set_aside(std::size_t copy) {
    is_read_[copy] = 1;
    auto const at = at_[arrivals() + copy] = staging_.allocate(bytes(arrivals() + copy));
    return {how::aside, false, copy, at};
  }
  /// Wave by wave: what is written lets others be written.
  void write_what_can_be(std::size_t step) {
    while (!ready_.empty()) {
      auto& wave = result_.waves.emplace_back();
      wave.before = step;
      auto placed = std::vector<std::size_t>{};
      auto over = std::vector<std::size_t>{};
      for (auto const write : std::exchange(ready_, {})) {
        auto const copy = write - arrivals();
        if (at_[write] != in_place_order::none) {
          wave.moves.push_back(
              {how::placed, arrives(write), arrives(write) ? write : copy, at_[write]});
          placed.push_back(write);
          continue;
        }
        over.push_back(work_.sends.size() + copy);
        if (overlaps_itself(copy)) {
          wave.moves.push_back(set_aside(copy));
        } else {
          is_read_[copy] = 1;
          wave.moves.push_back({how::copied, false, copy, in_place_order::none});
        }
      }
      for (auto const write : placed)
        staging_.free(std::exchange(at_[write], in_place_order::none), bytes(write));
      for (auto const read : over) finish(read);
    }
  }

  in_place_work const& work_;
  blocked_writes blocked_;       // reads: sends, then copies; writes: arrivals, then copies
  std::vector<std::size_t> at_;  // [writes]: where in the staging area they are now, or none
  std::vector<char> is_read_;    // [copies]
  std::vector<std::size_t> ready_;
  first_fit staging_;
  in_place_order result_;
};

/// @cost O(n log n + pairs that overlap) for n reads and writes; a pure function
[[nodiscard]] inline in_place_order order_in_place(in_place_work const& work) {
  return in_place_ordering{work}.take();
}

}  // namespace fssdp::detail
