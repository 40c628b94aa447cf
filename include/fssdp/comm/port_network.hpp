// SPDX-License-Identifier: Apache-2.0
/// Ports in real time: when messages between threads arrive that travel on a slower machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The ports of a topology, full duplex: what is offered goes as soon as both its ports are idle,
/// in the order in which it was offered, and arrives when its bytes have passed and the latency is
/// over. It has no clock: it is told the time, and may be told late. Whoever uses it locks it.
class port_network {
 public:
  using clock = std::chrono::steady_clock;

  /// Where a message is to arrive.
  struct address {
    void* box;
    std::uint64_t sequence;
    std::size_t index;
    rank_id to;
  };

  explicit port_network(topology machine)
      : machine_{std::move(machine)},
        out_busy_(2 * static_cast<std::size_t>(machine_.ranks())),
        in_busy_(out_busy_.size()) {}

  [[nodiscard]] topology const& machine() const { return machine_; }

  /// A message may go from now on: not before what was offered earlier. One without bytes needs no
  /// port and is there at once.
  void offer(rank_id from, std::size_t bytes, address const& where, clock::time_point now) {
    if (bytes == 0) {
      events_.push_back({now, none, none, where, happening::arrival});
      return;
    }
    auto const ranks = static_cast<std::size_t>(machine_.ranks());
    auto const& cost = machine_.cost();
    auto const inside = machine_.same_node(from, where.to);
    auto const out = inside ? from : machine_.interface_of(from);
    auto const in = inside ? where.to : machine_.interface_of(where.to);
    auto const rate = [&](rank_id rank) {
      auto const& port = machine_.port(rank);
      return inside ? port.inside_bytes_per_second : port.between_bytes_per_second;
    };
    auto const busy =
        static_cast<double>(bytes) / std::min(rate(out), rate(in)) + cost.port_seconds;
    auto const latency = inside ? cost.inside_latency_seconds : cost.between_latency_seconds;
    waiting_.push_back({(inside ? 0 : ranks) + out.index(), (inside ? 0 : ranks) + in.index(), now,
                        duration(busy), duration(latency), where});
    events_.push_back({now, none, none, where, happening::offer});
  }

  /// When something happens next; the end of time if nothing does.
  [[nodiscard]] clock::time_point next() const {
    auto first = clock::time_point::max();
    for (auto const& e : events_) first = std::min(first, e.when);
    return first;
  }

  /// Lets happen what is due and calls arrive(address) for messages that have arrived.
  template <class Arrive>
  void advance(clock::time_point now, Arrive arrive) {
    for (auto moment = next(); moment <= now && !events_.empty(); moment = next()) {
      for (auto const& due : events_) {
        if (due.when != moment) continue;
        if (due.what == happening::arrival) arrive(due.where);
        if (due.what == happening::idle) out_busy_[due.out] = in_busy_[due.in] = false;
      }
      std::erase_if(events_, [&](event const& e) { return e.when == moment; });
      start(moment);  // all ports that get idle at once, are
    }
  }

  /// Forgets all messages.
  void clear() {
    waiting_.clear();
    events_.clear();
    out_busy_.assign(out_busy_.size(), false);
    in_busy_.assign(in_busy_.size(), false);
  }

 private:
  static constexpr auto none = std::size_t(-1);
  struct shipment {
    std::size_t out;  // ports: those inside nodes first, then interfaces
    std::size_t in;
    clock::time_point offered;
    clock::duration busy;
    clock::duration latency;
    address where;
  };
  enum class happening { offer, arrival, idle };  // the last: of two ports
  struct event {
    clock::time_point when;
    std::size_t out;
    std::size_t in;
    address where;
    happening what;
  };

  static clock::duration duration(double seconds) {
    return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{seconds});
  }

  /// Whatever can go now, goes; what is offered later was not there yet.
  void start(clock::time_point now) {
    auto kept = waiting_.begin();
    for (auto const& s : waiting_) {
      if (s.offered > now || out_busy_[s.out] || in_busy_[s.in]) {
        *kept++ = s;
        continue;
      }
      out_busy_[s.out] = true;
      in_busy_[s.in] = true;
      events_.push_back({now + s.busy, s.out, s.in, s.where, happening::idle});
      events_.push_back({now + s.busy + s.latency, s.out, s.in, s.where, happening::arrival});
    }
    waiting_.erase(kept, waiting_.end());
  }

  topology machine_;
  std::vector<bool> out_busy_;
  std::vector<bool> in_busy_;
  std::vector<shipment> waiting_;  // in the order in which they were offered
  std::vector<event> events_;
};

}  // namespace fssdp::detail
