// SPDX-License-Identifier: Apache-2.0
/// The messages for the rows of one rank: one per segment, or one per peer.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/core/index.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp::detail {

/// The rows that a rank sends, or those that it receives. All segments of one peer are one message
/// if they are short, which both ends decide by the same rule. If its segments are contiguous, the
/// message is sent in place; otherwise it is packed, and stored after those of the peers before it.
class row_messages {
 public:
  using segments = std::span<token_segment const>;
  enum class end { sent, received };

  /// @param which the end of the plan; @param leave whether these rows leave the rank in this call
  /// @param pack_below segments with fewer bytes than this on average are one message
  row_messages(token_plan const& plan, end which, bool leave, std::byte* rows,
               std::size_t row_bytes, std::size_t pack_below)
      : plan_{plan},
        which_{which},
        leave_{leave},
        rows_{rows},
        row_bytes_{row_bytes},
        pack_below_{pack_below} {}

  [[nodiscard]] segments of(rank_id peer) const {
    return which_ == end::sent ? plan_.sent_to(peer) : plan_.received_from(peer);
  }
  [[nodiscard]] std::span<std::byte> bytes(token_segment const& s) const {
    return {rows_ + s.first * row_bytes_, s.rows * row_bytes_};
  }

  /// Calls visit(segment) for all segments that are packed, in the order in which they are stored.
  template <class Visit>
  void for_each_packed(Visit visit) const {
    for_each_peer([&](rank_id, segments list) {
      if (!is_packed(list)) return;
      for (auto const& s : list) visit(s);
    });
  }
  [[nodiscard]] std::size_t packed_bytes() const {
    auto sum = std::size_t{0};
    for_each_packed([&](token_segment const& s) { sum += bytes(s).size(); });
    return sum;
  }

  /// Calls visit(bytes, peer) for every message.
  /// @param packed the memory of packed messages
  template <class Visit>
  void for_each(std::byte* packed, Visit visit) const {
    for_each_peer([&](rank_id peer, segments list) {
      if (!is_one_message(list)) {
        for (auto const& s : list) visit(bytes(s), peer);
        return;
      }
      auto const all = bytes_of(list);
      auto const packs = is_packed(list);
      visit(std::span{packs ? packed : bytes(list.front()).data(), all}, peer);
      if (packs) packed += all;
    });
  }

 private:
  /// All other ranks, starting after this one, so that ranks do not all send to the same peer
  /// first; for receives in the opposite direction, which is the order in which peers send.
  template <class Visit>
  void for_each_peer(Visit visit) const {
    auto const ranks = plan_.ranks();
    auto const me = plan_.rank().value();
    for (int turn = 1; turn < ranks; ++turn) {
      auto const peer = rank_id{(me + (leave_ ? turn : ranks - turn)) % ranks};
      if (auto const list = of(peer); !list.empty()) visit(peer, list);
    }
  }
  [[nodiscard]] bool is_one_message(segments list) const {
    return list.size() == 1 || bytes_of(list) / list.size() < pack_below_;
  }
  [[nodiscard]] bool is_packed(segments list) const {
    if (!is_one_message(list)) return false;
    for (std::size_t i = 1; i < list.size(); ++i)
      if (list[i].first != list[i - 1].first + list[i - 1].rows) return true;
    return false;
  }
  [[nodiscard]] std::size_t bytes_of(segments list) const {
    auto rows = std::size_t{0};
    for (auto const& s : list) rows += s.rows;
    return rows * row_bytes_;
  }

  token_plan const& plan_;
  end which_;
  bool leave_;
  std::byte* rows_;
  std::size_t row_bytes_;
  std::size_t pack_below_;
};

}  // namespace fssdp::detail
