// SPDX-License-Identifier: Apache-2.0
/// Loads divided among replicas, compared exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fssdp {

/// The load of each of several replicas: load / replicas, as a fraction. Shares are equal if these
/// quotients are.
struct load_share {
  __extension__ typedef unsigned __int128 wide;

  wide load = 0;     ///< below 2^95, as sums of loads are
  int replicas = 1;  ///< from 1

  friend std::weak_ordering operator<=>(load_share const& a, load_share const& b) {
    return a.load * static_cast<wide>(b.replicas) <=> b.load * static_cast<wide>(a.replicas);
  }
  friend bool operator==(load_share const& a, load_share const& b) { return (a <=> b) == 0; }
};

/// A sum of shares, such as the load of a rank, as an integer and fractions. Comparisons of two
/// sums are exact: they do not depend on the order of the summands or the scale of the loads.
/// @cost one number for each different count of replicas; a comparison reads them only if the
///       integer parts are nearly equal
class load_share_sum {
 public:
  void add(load_share const& share) {
    auto const replicas = static_cast<std::uint64_t>(share.replicas);
    whole_ += static_cast<signed_wide>(share.load / replicas);
    auto const rest = static_cast<std::uint64_t>(share.load % replicas);
    if (rest == 0) return;
    auto const at = std::ranges::lower_bound(parts_, replicas, {}, &part::of);
    if (at == parts_.end() || at->of != replicas) {
      parts_.insert(at, {replicas, rest});
      return;
    }
    at->rest += rest;
    if (at->rest >= replicas) {
      at->rest -= replicas;
      ++whole_;
    }
    if (at->rest == 0) parts_.erase(at);
  }

  friend std::weak_ordering operator<=>(load_share_sum const& a, load_share_sum const& b) {
    auto const whole = a.whole_ - b.whole_;  // every fraction is below 1
    if (whole >= static_cast<signed_wide>(std::max<std::size_t>(1, b.parts_.size())))
      return std::weak_ordering::greater;
    if (-whole >= static_cast<signed_wide>(std::max<std::size_t>(1, a.parts_.size())))
      return std::weak_ordering::less;
    return sign(static_cast<std::int64_t>(whole), a.parts_, b.parts_);
  }
  friend bool operator==(load_share_sum const& a, load_share_sum const& b) {
    return (a <=> b) == 0;
  }

 private:
  __extension__ typedef __int128 signed_wide;
  struct part {
    std::uint64_t of;    // replicas
    std::uint64_t rest;  // from 1, below that
  };

  /// The sign of whole + plus - minus, by long division of all fractions together, 32 bits a step.
  /// The value is a multiple of 1 / (product of all counts): a smaller remainder is zero.
  static std::weak_ordering sign(std::int64_t whole, std::vector<part> const& plus,
                                 std::vector<part> const& minus) {
    auto parts = plus;
    for (auto const& taken : minus) {
      auto const at = std::ranges::lower_bound(parts, taken.of, {}, &part::of);
      auto const same = at != parts.end() && at->of == taken.of;
      auto const had = same ? at->rest : 0;
      if (had < taken.rest) --whole;
      auto const rest = had < taken.rest ? had + taken.of - taken.rest : had - taken.rest;
      if (same)
        at->rest = rest;
      else
        parts.insert(at, {taken.of, rest});
    }
    auto bits = 64;
    for (auto const& of : parts) bits += static_cast<int>(std::bit_width(of.of));
    for (;; bits -= 32) {
      std::erase_if(parts, [](part const& of) { return of.rest == 0; });
      if (whole >= 0 || parts.empty())
        return whole > 0 || !parts.empty() ? std::weak_ordering::greater
               : whole == 0                ? std::weak_ordering::equivalent
                                           : std::weak_ordering::less;
      if (-whole >= static_cast<std::int64_t>(parts.size())) return std::weak_ordering::less;
      if (bits <= 0) return std::weak_ordering::equivalent;
      whole *= std::int64_t{1} << 32;
      for (auto& of : parts) {
        whole += static_cast<std::int64_t>((of.rest << 32) / of.of);
        of.rest = (of.rest << 32) % of.of;
      }
    }
  }

  signed_wide whole_ = 0;
  std::vector<part> parts_;  // ascending in `of`
};

}  // namespace fssdp
