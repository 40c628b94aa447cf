// SPDX-License-Identifier: Apache-2.0
/// Sends units that are compressed one by one: in each exchange the payloads of all units together.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/payload_exchange.hpp"

namespace fssdp::detail {

/// The units of one exchange and their combined payloads. Memory is kept for the next exchange.
class compressed_rounds {
 public:
  struct unit {
    any_compressor const* compressor;
    compression_unit about;
    std::span<float const> input;
  };

  void clear() { units_.clear(); }
  void add(unit const& of) { units_.push_back(of); }

  /// Encodes and exchanges. In each exchange, all payloads that are gathered form one message to
  /// every other group, and all payloads that are added form another one.
  /// @throws ranks_disagree if groups differ in the label or in sizes; transport errors
  void run(communicator_ref const& between, batch_label label) {
    groups_ = between.size();
    auto const count = most_rounds();
    if (rounds_.size() < count) rounds_.resize(count);
    for (std::size_t r = 0; r < count; ++r) {
      auto& round = rounds_[r];
      lay_out(round, r);
      for (std::size_t n = 0; n < units_.size(); ++n)
        if (is_in(n, r)) encode(round, n, r);
      for (auto const how : {combination::gather, combination::sum}) {
        auto& now = lane_of(round, how);
        if (!now.is_used) continue;
        label.round = static_cast<int>(4 * r) + (how == combination::sum ? 1 : 0);
        exchange_.run(between, how, std::span{now.mine}.first(now.bytes),
                      std::span{now.all}.first(combined_bytes(how, now.bytes)), label);
      }
    }
  }

  /// The combined payloads of a unit.
  [[nodiscard]] std::span<combined_payload const> rounds_of(std::size_t n) {
    return first_rounds(n, static_cast<std::size_t>(units_[n].compressor->rounds()));
  }

  /// Computes the bytes that one rank of `groups` sends for units of the given sizes: exact unless
  /// sizes depend on elements.
  class byte_count {
   public:
    void add(any_compressor const& compressor, unit_shape shape, std::size_t units) {
      for (int r = 0; r < compressor.rounds(); ++r)
        add(r, compressor.combines(r),
            checked_product("gradient_exchange", compressor.payload_bytes(shape, r), units));
    }
    /// Adds a payload of an exchange, where its size is known.
    void add(int round, combination how, std::size_t bytes) {
      auto const at = static_cast<std::size_t>(round);
      if (rounds_.size() <= at) rounds_.resize(at + 1);
      (how == combination::gather ? rounds_[at].gathered : rounds_[at].added) += bytes;
    }
    [[nodiscard]] std::size_t sent_by(rank_id group, int groups) const {
      auto bytes = std::size_t{0};
      for (auto const& round : rounds_)
        bytes += static_cast<std::size_t>(groups - 1) * round.gathered +
                 payload_exchange::bytes_of_sum(round.added, group, groups);
      return bytes;
    }

   private:
    struct both {
      std::size_t gathered = 0;
      std::size_t added = 0;
    };
    std::vector<both> rounds_;
  };

 private:
  /// The payloads of an exchange that are combined in the same way, contiguous.
  struct lane {
    std::vector<std::byte> mine;
    std::vector<std::byte> all;
    std::size_t bytes = 0;
    bool is_used = false;
  };
  struct place {
    combination how = combination::gather;
    std::size_t first = 0;
    std::size_t bytes = 0;
  };
  struct round_memory {
    std::array<lane, 2> lanes;
    std::vector<place> places;  // [units]
  };

  [[nodiscard]] static lane& lane_of(round_memory& round, combination how) {
    return round.lanes[how == combination::gather ? 0 : 1];
  }
  /// At least one, so that ranks that own nothing compare labels, too.
  [[nodiscard]] std::size_t most_rounds() const {
    auto most = 1;
    for (auto const& of : units_) most = std::max(most, of.compressor->rounds());
    return static_cast<std::size_t>(most);
  }
  [[nodiscard]] bool is_in(std::size_t n, std::size_t round) const {
    return round < static_cast<std::size_t>(units_[n].compressor->rounds());
  }
  [[nodiscard]] std::size_t combined_bytes(combination how, std::size_t bytes) const {
    return payload_exchange::combined_bytes(how, bytes, groups_);
  }
  void lay_out(round_memory& round, std::size_t r) {
    round.places.assign(units_.size(), {});
    for (auto& of : round.lanes) {
      of.bytes = 0;
      of.is_used = false;
    }
    for (std::size_t n = 0; n < units_.size(); ++n) {
      if (!is_in(n, r)) continue;
      auto const& [compressor, about, input] = units_[n];
      auto& at = round.places[n];
      at.how = compressor->combines(static_cast<int>(r));
      at.bytes = compressor->payload_bytes_after(about, first_rounds(n, r));
      auto& of = lane_of(round, at.how);
      at.first = of.bytes;
      of.bytes += at.bytes;
      of.is_used = true;
    }
    if (units_.empty()) lane_of(round, combination::gather).is_used = true;
    for (auto const how : {combination::gather, combination::sum}) {
      auto& of = lane_of(round, how);
      grow(of.mine, of.bytes);
      grow(of.all, combined_bytes(how, of.bytes));
    }
  }
  void encode(round_memory& round, std::size_t n, std::size_t r) {
    auto const& [compressor, about, input] = units_[n];
    auto const& at = round.places[n];
    compressor->encode(about, input, first_rounds(n, r),
                       std::span{lane_of(round, at.how).mine}.subspan(at.first, at.bytes));
  }
  [[nodiscard]] std::span<combined_payload const> first_rounds(std::size_t n, std::size_t count) {
    combined_.clear();
    for (auto& round : std::span{rounds_}.first(count)) {
      auto const& at = round.places[n];
      auto const& of = lane_of(round, at.how);
      combined_.push_back({.mine = std::span<std::byte const>{of.mine}.subspan(at.first, at.bytes),
                           .all = std::span<std::byte const>{of.all}.subspan(at.first),
                           .stride = of.bytes,
                           .groups = groups_});
    }
    return combined_;
  }
  static void grow(std::vector<std::byte>& bytes, std::size_t size) {
    if (bytes.size() < size) bytes.resize(size);
  }

  int groups_ = 1;
  std::vector<unit> units_;
  std::vector<round_memory> rounds_;
  std::vector<combined_payload> combined_;  // of one unit
  payload_exchange exchange_;
};

}  // namespace fssdp::detail
