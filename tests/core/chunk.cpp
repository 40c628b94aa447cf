// SPDX-License-Identifier: Apache-2.0
/// Chunks in canonical order, and slices and pieces that cover their whole exactly once.
#include "fssdp/core/chunk.hpp"

#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "catch.hpp"

using fssdp::chunk_id;
using fssdp::chunk_range;
using fssdp::expert_id;
using fssdp::piece_extent;
using fssdp::piece_granularity;
using fssdp::piece_id;
using fssdp::slice_extent;
using fssdp::slice_id;

static_assert(std::is_convertible_v<expert_id, chunk_id>, "where experts are whole");
static_assert(!std::is_convertible_v<int, chunk_id>, "a bare number is not a chunk");
static_assert(!std::is_constructible_v<chunk_id, slice_id>, "a slice is one of an expert");
static_assert(!std::is_constructible_v<chunk_id, slice_id, expert_id>);
static_assert(std::totally_ordered<chunk_id>);
static_assert(std::input_iterator<chunk_range::iterator>);
static_assert(std::is_convertible_v<chunk_id, piece_id>, "where chunks are not cut");
static_assert(!std::is_convertible_v<int, piece_id>);
static_assert(std::totally_ordered<piece_id>);

namespace {

using list = std::vector<std::pair<int, int>>;

[[nodiscard]] list listed(chunk_range const& range) {
  auto chunks = list{};
  for (auto const [expert, slice] : range) chunks.emplace_back(expert.value(), slice.value());
  return chunks;
}

}  // namespace

TEST_CASE("an expert is its own first slice") {
  STATIC_REQUIRE(chunk_id{expert_id{3}} == chunk_id{expert_id{3}, slice_id{0}});
  STATIC_REQUIRE(chunk_id{} == chunk_id{expert_id{0}, slice_id{0}});
  chunk_id const chunk = expert_id{2};
  REQUIRE(chunk.expert == expert_id{2});
  REQUIRE(chunk.slice == slice_id{0});
}

TEST_CASE("chunks are ordered by expert, then by slice") {
  REQUIRE(chunk_id{expert_id{1}, slice_id{7}} < chunk_id{expert_id{2}, slice_id{0}});
  REQUIRE(chunk_id{expert_id{1}, slice_id{1}} < chunk_id{expert_id{1}, slice_id{2}});
}

TEST_CASE("a range of chunks counts slices first") {
  REQUIRE(listed({0, 6, 3}) == list{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  REQUIRE(listed({2, 5, 2}) == list{{1, 0}, {1, 1}, {2, 0}});
  REQUIRE(listed({2, 4, 1}) == list{{2, 0}, {3, 0}});
  REQUIRE(listed({4, 4, 2}).empty());
  REQUIRE(chunk_range{4, 4, 2}.empty());
  REQUIRE(!chunk_range{4, 5, 2}.empty());
  REQUIRE(chunk_range{2, 9, 2}.size() == 7);
  auto const range = chunk_range{2, 9, 2};
  auto it = range.begin();
  REQUIRE(*it++ == chunk_id{expert_id{1}});
  REQUIRE(*it == chunk_id{expert_id{1}, slice_id{1}});
  REQUIRE(*++it == chunk_id{expert_id{2}});
}

TEST_CASE("every chunk of a range is at its place and the range ascends") {
  for (int slices = 1; slices <= 9; ++slices)
    for (int chunks = 0; chunks <= 40; ++chunks) {
      CAPTURE(slices, chunks);
      auto next = 0;
      auto wrong = 0;
      for (auto const [expert, slice] : chunk_range{0, chunks, slices}) {
        wrong += slice.value() < 0 || slice.value() >= slices ? 1 : 0;
        wrong += expert.value() * slices + slice.value() != next++ ? 1 : 0;
      }
      REQUIRE(wrong == 0);
      REQUIRE(next == chunks);
    }
}

TEST_CASE("the slices of a tensor cover it exactly once, in order, none longer than its room") {
  for (std::size_t whole = 0; whole <= 40; ++whole)
    for (int slices = 1; slices <= 9; ++slices) {
      CAPTURE(whole, slices);
      auto const room = fssdp::slice_elements(whole, slices);
      auto next = std::size_t{0};
      auto shorter = false;
      for (auto const slice : fssdp::first_n<slice_id>(slices)) {
        auto const part = slice_extent{whole, slice, slices};
        REQUIRE(part.first == next);
        REQUIRE(part.elements <= room);
        REQUIRE((!shorter || part.elements == 0));  // after a short one there is nothing left
        shorter = part.elements < room;
        next += part.elements;
      }
      REQUIRE(next == whole);
    }
}

TEST_CASE("slices, worked by hand") {
  STATIC_REQUIRE(fssdp::slice_elements(10, 4) == 3);  // 3 3 3 1
  STATIC_REQUIRE(slice_extent{10, slice_id{3}, 4}.first == 9);
  STATIC_REQUIRE(slice_extent{10, slice_id{3}, 4}.elements == 1);
  STATIC_REQUIRE(fssdp::slice_elements(5, 4) == 2);  // 2 2 1 0
  STATIC_REQUIRE(slice_extent{5, slice_id{3}, 4}.first == 5);
  STATIC_REQUIRE(slice_extent{5, slice_id{3}, 4}.elements == 0);
  STATIC_REQUIRE(fssdp::slice_elements(0, 4) == 0);
  STATIC_REQUIRE(fssdp::slice_elements(7, 1) == 7);
}

TEST_CASE("pieces are ordered by chunk, then by their place in it") {
  STATIC_REQUIRE(piece_id{chunk_id{expert_id{3}}} == piece_id{chunk_id{expert_id{3}}, 0});
  REQUIRE(piece_id{chunk_id{expert_id{1}, slice_id{0}}, 7} <
          piece_id{chunk_id{expert_id{1}, slice_id{1}}, 0});
  REQUIRE(piece_id{chunk_id{expert_id{1}}, 1} < piece_id{chunk_id{expert_id{1}}, 2});
}

TEST_CASE("the pieces of a slice cover it exactly once, in order, and begin where blocks do") {
  auto sizes = std::vector<std::size_t>{0, 1, 255, 256, 257, 511, 512, 513, 1000, 1500, 4096};
  for (std::size_t size = 2000; size < 20000; size += 997) sizes.push_back(size);
  for (auto const slice : sizes)
    for (int pieces = 1; pieces <= 20; ++pieces) {
      CAPTURE(slice, pieces);
      auto const room = fssdp::piece_elements(slice, pieces);
      REQUIRE(room <= slice);
      auto next = std::size_t{0};
      auto wrong = 0;
      for (int piece = 0; piece < pieces; ++piece) {
        auto const part = piece_extent{slice, piece, pieces};
        wrong += part.first != next || part.elements > room ? 1 : 0;
        wrong += part.elements != 0 && part.first % piece_granularity != 0 ? 1 : 0;
        wrong += part.elements < room && part.first + part.elements != slice ? 1 : 0;
        next += part.elements;
      }
      REQUIRE(wrong == 0);
      REQUIRE(next == slice);
    }
}

TEST_CASE("pieces, worked by hand") {
  STATIC_REQUIRE(fssdp::piece_elements(1000, 1) == 1000);
  STATIC_REQUIRE(fssdp::piece_elements(1000, 2) == 512);  // 512 488
  STATIC_REQUIRE(piece_extent{1000, 1, 2}.first == 512);
  STATIC_REQUIRE(piece_extent{1000, 1, 2}.elements == 488);
  STATIC_REQUIRE(fssdp::piece_elements(1000, 3) == 512);  // 512 488 0
  STATIC_REQUIRE(piece_extent{1000, 2, 3}.first == 1000);
  STATIC_REQUIRE(piece_extent{1000, 2, 3}.elements == 0);
  STATIC_REQUIRE(fssdp::piece_elements(100, 4) == 100);  // 100 0 0 0
  STATIC_REQUIRE(fssdp::piece_elements(1024, 4) == 256);
}
