// SPDX-License-Identifier: Apache-2.0
/// An emulated network in real time: when messages between threads arrive on slower ports.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The ports of a topology, full duplex. A message is sent as soon as both its ports are idle, and
/// arrives after the time for its bytes and the latency. If several messages could use a receiving
/// port, the one that comes first in its receiver's exchange goes first; for a sending port, the one
/// that comes first in its sender's; otherwise the one that was offered first. So exchanges of
/// several communicators take turns, message by message. It has no clock: the caller passes the
/// time, possibly late. The caller must lock it.
class port_network {
 public:
  using clock = std::chrono::steady_clock;

  /// The destination of a message.
  struct address {
    void* box;
    std::uint64_t sequence;
    std::size_t index;  // among those between the two
    rank_id to;
    std::size_t number;  // among those of the sender's exchange
  };

  explicit port_network(topology topo)
      : topo_{std::move(topo)},
        out_busy_(2 * static_cast<std::size_t>(topo_.ranks())),
        in_busy_(out_busy_.size()) {}

  [[nodiscard]] topology const& topo() const { return topo_; }

  /// Offers a message, which is sent after those that were offered earlier. An empty message needs
  /// no port and arrives at once.
  void offer(rank_id from, std::size_t bytes, address const& where, clock::time_point now) {
    if (bytes == 0) {
      events_.push_back({now, none, none, where, happening::arrival});
      return;
    }
    auto const ranks = static_cast<std::size_t>(topo_.ranks());
    auto const& cost = topo_.cost();
    auto const inside = topo_.same_node(from, where.to);
    auto const out = inside ? from : topo_.interface_of(from);
    auto const in = inside ? where.to : topo_.interface_of(where.to);
    auto const rate = [&](rank_id rank) {
      auto const& port = topo_.port(rank);
      return inside ? port.inside_bytes_per_second : port.between_bytes_per_second;
    };
    auto const busy =
        static_cast<double>(bytes) / std::min(rate(out), rate(in)) + cost.port_seconds;
    auto const latency = inside ? cost.inside_latency_seconds : cost.between_latency_seconds;
    waiting_.push_back({(inside ? 0 : ranks) + out.index(), (inside ? 0 : ranks) + in.index(), now,
                        duration(busy), duration(latency), where});
    events_.push_back({now, none, none, where, happening::offer});
  }

  /// The time of the next event; the end of time if there is none.
  [[nodiscard]] clock::time_point next() const {
    auto first = clock::time_point::max();
    for (auto const& e : events_) first = std::min(first, e.when);
    return first;
  }

  /// Processes all events that are due, and calls arrive(address) for messages that have arrived.
  /// @param turn_of(address) the position of the message among those that its receiver's exchange
  ///        receives; 0 if it is not added yet
  template <class Arrive, class TurnOf>
  void advance(clock::time_point now, Arrive arrive, TurnOf turn_of) {
    for (auto moment = next(); moment <= now && !events_.empty(); moment = next()) {
      for (auto const& due : events_) {
        if (due.when != moment) continue;
        if (due.what == happening::arrival) arrive(due.where);
        if (due.what == happening::idle) out_busy_[due.out] = in_busy_[due.in] = false;
      }
      std::erase_if(events_, [&](event const& e) { return e.when == moment; });
      while (start(moment, turn_of)) {  // all ports that become idle at this moment are idle now
      }
    }
  }

  /// Removes all messages.
  void clear() {
    waiting_.clear();
    events_.clear();
    out_busy_.assign(out_busy_.size(), false);
    in_busy_.assign(in_busy_.size(), false);
  }

 private:
  static constexpr auto none = std::size_t(-1);
  struct shipment {
    std::size_t out;  // index of a port: those inside nodes first, then interfaces
    std::size_t in;
    clock::time_point offered;
    clock::duration busy;
    clock::duration latency;
    address where;
  };
  enum class happening { offer, arrival, idle };  // idle: of two ports
  struct event {
    clock::time_point when;
    std::size_t out;
    std::size_t in;
    address where;
    happening what;
  };

  static clock::duration duration(double seconds) {
    constexpr auto most = std::chrono::duration<double>{longest_wait / 2};  // of two in a row
    return std::chrono::duration_cast<clock::duration>(
        std::min(std::chrono::duration<double>{seconds}, most));
  }

  static std::size_t in_of(shipment const& s) { return s.in; }
  static std::size_t out_of(shipment const& s) { return s.out; }

  /// Starts messages that can start now and have no other before them. Messages that are offered
  /// later did not exist at this moment.
  /// @return whether any has started: then others may be able to
  template <class TurnOf>
  bool start(clock::time_point now, TurnOf turn_of) {
    auto const can_go = [&](shipment const& s) {
      return s.offered <= now && !out_busy_[s.out] && !in_busy_[s.in];
    };
    auto const first_of = [&](std::vector<std::size_t>& first, auto port, auto goes, auto value) {
      first.assign(in_busy_.size(), std::numeric_limits<std::size_t>::max());
      for (auto const& s : waiting_)
        if (goes(s)) first[port(s)] = std::min(first[port(s)], value(s));
    };
    first_of(first_turn_, &in_of, can_go, [&](shipment const& s) { return turn_of(s.where); });
    auto const is_next = [&](shipment const& s) {
      return can_go(s) && turn_of(s.where) == first_turn_[s.in];
    };
    first_of(first_number_, &out_of, is_next, [](shipment const& s) { return s.where.number; });
    auto kept = waiting_.begin();
    for (auto const& s : waiting_) {
      if (!is_next(s) || s.where.number != first_number_[s.out]) {
        *kept++ = s;
        continue;
      }
      out_busy_[s.out] = true;
      in_busy_[s.in] = true;
      events_.push_back({now + s.busy, s.out, s.in, s.where, happening::idle});
      events_.push_back({now + s.busy + s.latency, s.out, s.in, s.where, happening::arrival});
    }
    auto const has_gone = kept != waiting_.end();
    waiting_.erase(kept, waiting_.end());
    return has_gone;
  }

  topology topo_;
  std::vector<bool> out_busy_;
  std::vector<bool> in_busy_;
  std::vector<shipment> waiting_;  // in the order in which they were offered
  std::vector<event> events_;
  std::vector<std::size_t> first_turn_;    // [ports]: a member so that it does not allocate
  std::vector<std::size_t> first_number_;  // as above
};

}  // namespace fssdp::detail
