// SPDX-License-Identifier: Apache-2.0
/// The concept of a layout: near misses that lack exactly one thing, beside a twin that does not.
#include "fssdp/layout/shard_layout.hpp"

#include <span>

#include "catch.hpp"

using fssdp::chunk_id;
using fssdp::rank_id;

namespace {

enum class lack { nothing, experts, slices, ranks, owner, slot, owned, default_value, comparison };
enum class wrong { nothing, experts, owner, slot, owned, constness };

/// All that the concept asks for, less one thing.
template <lack Missing, wrong Bent = wrong::nothing>
struct near_miss {
  near_miss() requires(Missing != lack::default_value) = default;
  explicit near_miss(int) {}

  int experts() const
      requires(Missing != lack::experts && Bent != wrong::experts && Bent != wrong::constness) {
    return 0;
  }
  long experts() const requires(Bent == wrong::experts) { return 0; }
  int experts() requires(Bent == wrong::constness) { return 0; }
  int slices() const requires(Missing != lack::slices) { return 1; }
  int ranks() const requires(Missing != lack::ranks) { return 0; }
  rank_id owner(chunk_id) const requires(Missing != lack::owner && Bent != wrong::owner) {
    return {};
  }
  int owner(chunk_id) const requires(Bent == wrong::owner) { return 0; }
  int slot(chunk_id) const requires(Missing != lack::slot && Bent != wrong::slot) { return 0; }
  chunk_id slot(chunk_id) const requires(Bent == wrong::slot) { return {}; }
  std::span<chunk_id const> owned(rank_id) const
      requires(Missing != lack::owned && Bent != wrong::owned) {
    return {};
  }
  std::span<rank_id const> owned(rank_id) const requires(Bent == wrong::owned) { return {}; }
  bool operator==(near_miss const&) const requires(Missing != lack::comparison) = default;
};

template <lack Missing, wrong Bent = wrong::nothing>
inline constexpr bool is_layout = fssdp::shard_layout<near_miss<Missing, Bent>>;

static_assert(is_layout<lack::nothing>, "the twin of all others");
static_assert(!is_layout<lack::experts>);
static_assert(!is_layout<lack::slices>);
static_assert(!is_layout<lack::ranks>);
static_assert(!is_layout<lack::owner>);
static_assert(!is_layout<lack::slot>);
static_assert(!is_layout<lack::owned>);
static_assert(!is_layout<lack::default_value>);
static_assert(!is_layout<lack::comparison>);
static_assert(!is_layout<lack::nothing, wrong::experts>);
static_assert(!is_layout<lack::nothing, wrong::owner>, "a bare number is not a rank");
static_assert(!is_layout<lack::nothing, wrong::slot>);
static_assert(!is_layout<lack::nothing, wrong::owned>, "owned lists chunks");
static_assert(!is_layout<lack::nothing, wrong::constness>);
static_assert(!fssdp::shard_layout<int>);

}  // namespace

TEST_CASE("what lacks one thing of a layout is none") { SUCCEED("checked by the compiler"); }
