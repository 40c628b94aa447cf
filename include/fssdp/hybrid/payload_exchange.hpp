// SPDX-License-Identifier: Apache-2.0
/// Moves payloads between the counterparts of groups.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp::detail {

/// Combines one buffer of each group, between ranks that are groups. Memory only grows. Every rank
/// adds receivers in cyclic order after itself, and senders in the opposite order, so that ranks
/// that come at the same time send to different peers.
class payload_exchange {
 public:
  /// The size of the combined payloads.
  [[nodiscard]] static std::size_t combined_bytes(combination how, std::size_t bytes, int groups) {
    return how == combination::sum
               ? bytes
               : checked_product("payload_exchange", bytes, static_cast<std::size_t>(groups));
  }

  /// The bytes that a rank sends when `bytes` are to be added.
  [[nodiscard]] static std::size_t bytes_of_sum(std::size_t bytes, rank_id group, int groups) {
    auto const [first, last] = floats_of(bytes, group, groups);
    auto const part = (last - first) * sizeof(float);
    return bytes - part + static_cast<std::size_t>(groups - 1) * part;
  }

  /// @param mine [n]; floats if they are added
  /// @param all [groups, n] if gathered, [n] if added: equal bits in all groups
  /// @param label a hash of what is exchanged
  /// @throws ranks_disagree if others exchange something else; transport errors
  void run(communicator_ref const& between, combination how, std::span<std::byte const> mine,
           std::span<std::byte> all, batch_label const& label) {
    if (how == combination::gather)
      gather(between, mine, all, label);
    else
      sum(between, mine, all, label);
  }

 private:
  static void gather(communicator_ref const& between, std::span<std::byte const> mine,
                     std::span<std::byte> all, batch_label const& label) {
    auto const me = between.rank();
    copy_bytes(all.subspan(me.index() * mine.size(), mine.size()), mine);
    between.exchange([&](batch_ref const& batch) {
      batch.label(label);
      for_each_other(between, [&](rank_id next, rank_id previous) {
        batch.send(mine, next);
        batch.recv(all.subspan(previous.index() * mine.size(), mine.size()), previous);
      });
    });
  }
  /// Every group adds its part of all payloads, in the order of the groups, and sends it to the
  /// others.
  void sum(communicator_ref const& between, std::span<std::byte const> mine,
           std::span<std::byte> all, batch_label const& label) {
    auto const me = between.rank();
    auto const part = [&](std::span<std::byte> bytes, rank_id of) {
      auto const [first, last] = floats_of(bytes.size(), of, between.size());
      return bytes.subspan(first * sizeof(float), (last - first) * sizeof(float));
    };
    auto const [first, last] = floats_of(mine.size(), me, between.size());
    auto const own_bytes = (last - first) * sizeof(float);
    parts_.resize(std::max(parts_.size(), own_bytes * static_cast<std::size_t>(between.size())));
    auto const row = [&](rank_id group) {
      return std::span{parts_}.subspan(group.index() * own_bytes, own_bytes);
    };
    between.exchange([&](batch_ref const& batch) {
      batch.label(label);
      for_each_other(between, [&](rank_id next, rank_id previous) {
        auto const [begin, end] = floats_of(mine.size(), next, between.size());
        batch.send(mine.subspan(begin * sizeof(float), (end - begin) * sizeof(float)), next);
        batch.recv(row(previous), previous);
      });
    });
    copy_bytes(row(me), mine.subspan(first * sizeof(float), own_bytes));
    auto const total = part(all, me);
    for (std::size_t i = 0; i < last - first; ++i) {
      auto value = 0.0F;
      for (auto const group : first_n<rank_id>(between.size())) value += float_at(row(group), i);
      put_float(total, i, value);
    }
    between.exchange([&](batch_ref const& batch) {
      batch.label({label.plan, label.round + 1});
      for_each_other(between, [&](rank_id next, rank_id previous) {
        batch.send(total, next);
        batch.recv(part(all, previous), previous);
      });
    });
  }
  /// Calls visit(next, previous) for the ranks 1, 2, ... after and before this one.
  template <class Visit>
  static void for_each_other(communicator_ref const& between, Visit visit) {
    auto const size = between.size();
    auto const me = between.rank().value();
    for (int away = 1; away < size; ++away)
      visit(rank_id{(me + away) % size}, rank_id{(me + size - away) % size});
  }
  struct float_range {
    std::size_t first;
    std::size_t last;
  };
  [[nodiscard]] static float_range floats_of(std::size_t bytes, rank_id group, int groups) {
    auto const floats = bytes / sizeof(float);
    auto const at = [&](std::size_t g) {  // avoids a product that may overflow
      auto const n = static_cast<std::size_t>(groups);
      return floats / n * g + floats % n * g / n;
    };
    return {at(group.index()), at(group.index() + 1)};
  }

  std::vector<std::byte> parts_;  // [groups, part]: of all groups, to be added by this one
};

}  // namespace fssdp::detail
