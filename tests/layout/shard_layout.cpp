// SPDX-License-Identifier: Apache-2.0
/// check_layout refuses what breaks the law of a layout, in every way that it can be broken.
#include "fssdp/layout/shard_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "catch.hpp"

using fssdp::chunk_id;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::slice_id;

namespace {

chunk_id chunk(int expert, int slice) { return {expert_id{expert}, slice_id{slice}}; }

/// A layout that says whatever it was told.
struct talker {
  struct place {
    chunk_id of;
    int rank = 0;
    int slot = 0;
    friend bool operator==(place const&, place const&) = default;
  };
  /// What a rank owns; it may misjudge its own length.
  struct list {
    std::vector<chunk_id> chunks;
    std::size_t imagined = 0;
    [[nodiscard]] auto begin() const { return chunks.begin(); }
    [[nodiscard]] auto end() const { return chunks.end(); }
    [[nodiscard]] std::size_t size() const { return chunks.size() + imagined; }
    friend bool operator==(list const&, list const&) = default;
  };

  int experts_ = 0;
  int slices_ = 0;
  int ranks_ = 0;
  std::vector<place> places;
  std::vector<list> lists;  // [rank]

  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] int slices() const { return slices_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] rank_id owner(chunk_id of) const { return rank_id{find(of).rank}; }
  [[nodiscard]] int slot(chunk_id of) const { return find(of).slot; }
  [[nodiscard]] list const& owned(rank_id rank) const { return lists[rank.index()]; }
  friend bool operator==(talker const&, talker const&) = default;

 private:
  [[nodiscard]] place const& find(chunk_id of) const {
    return *std::ranges::find(places, of, &place::of);
  }
};

static_assert(fssdp::shard_layout<talker>);

/// Two experts in two slices on two ranks: the last slice lies on rank 1, all others on rank 0.
[[nodiscard]] talker truth() {
  auto of = talker{};
  of.experts_ = of.slices_ = of.ranks_ = 2;
  of.places = {{chunk(0, 0), 0, 0}, {chunk(0, 1), 0, 1}, {chunk(1, 0), 0, 2}, {chunk(1, 1), 1, 0}};
  of.lists.resize(2);
  of.lists[0].chunks = {chunk(0, 0), chunk(0, 1), chunk(1, 0)};
  of.lists[1].chunks = {chunk(1, 1)};
  return of;
}

/// Changes one thing and looks what check_layout says.
template <class Change, class Named>
void refused(Change change, Named const& named) {
  auto layout = truth();
  change(layout);
  REQUIRE_THROWS_AS(fssdp::check_layout(layout), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::check_layout(layout), named);
}

}  // namespace

TEST_CASE("the correct version of the broken layouts is accepted") {
  REQUIRE_NOTHROW(fssdp::check_layout(truth()));
  REQUIRE(truth() == truth());
}

TEST_CASE("an empty layout is refused") {
  refused([](talker& of) { of.experts_ = 0; }, mentions("0 experts"));
  refused([](talker& of) { of.slices_ = -1; }, mentions("-1 slices"));
  refused([](talker& of) { of.ranks_ = 0; }, mentions("0 ranks"));
}

TEST_CASE("two chunks in one slot are refused") {
  refused([](talker& of) { of.places[1].slot = 0; },
          mentions("slice 1 of expert 0") && mentions("slot 1 of rank 0") &&
              mentions("the layout returns slot 0 of rank 0"));
}

TEST_CASE("a gap between slots is refused") {
  refused([](talker& of) { of.places[2].slot = 3; },
          mentions("slice 0 of expert 1") && mentions("slot 3 of rank 0"));
  refused([](talker& of) { of.places[3].slot = 1; }, mentions("slice 1 of expert 1"));
  refused([](talker& of) { of.places[0].slot = -1; }, mentions("slice 0 of expert 0"));
}

TEST_CASE("a list in another order than the slots is refused") {
  refused([](talker& of) { std::swap(of.lists[0].chunks[1], of.lists[0].chunks[2]); },
          mentions("slice 0 of expert 1 is listed at slot 1 of rank 0"));
}

TEST_CASE("another owner than the rank that lists the chunk is refused") {
  refused([](talker& of) { of.places[2].rank = 1; },
          mentions("slice 0 of expert 1 is listed at slot 2 of rank 0") && mentions("of rank 1"));
  refused([](talker& of) { of.places[3].rank = 7; },
          mentions("slice 1 of expert 1") && mentions("of rank 7"));
}

TEST_CASE("a chunk that is owned twice is refused") {
  refused(
      [](talker& of) {
        of.lists[1].chunks = {chunk(1, 1), chunk(0, 1)};
      },
      mentions("slice 1 of expert 0 is listed at slot 1 of rank 1"));
  refused(
      [](talker& of) {
        of.lists[1].chunks = {chunk(1, 1), chunk(1, 1)};
      },
      mentions("slice 1 of expert 1 is listed at slot 1 of rank 1"));
}

TEST_CASE("a chunk without an owner is refused") {
  refused([](talker& of) { of.lists[1].chunks = {}; },
          mentions("slice 1 of expert 1 is listed by no rank"));
  refused(
      [](talker& of) {
        of.lists[0].chunks = {chunk(0, 0), chunk(0, 1)};
      },
      mentions("slice 0 of expert 1 is listed by no rank"));
}

TEST_CASE("a chunk that does not exist is refused") {
  refused([](talker& of) { of.lists[1].chunks = {chunk(2, 0)}; },
          mentions("rank 1 owns slice 0 of expert 2"));
  refused([](talker& of) { of.lists[1].chunks = {chunk(1, 2)}; },
          mentions("rank 1 owns slice 2 of expert 1"));
  refused([](talker& of) { of.lists[0].chunks = {chunk(-1, 0)}; }, mentions("expert -1"));
}

TEST_CASE("a list with a wrong length is refused, as shards are sized by it") {
  refused([](talker& of) { of.lists[1].imagined = 1; },
          mentions("the size of the list of rank 1 is 2, and it has 1"));
}
