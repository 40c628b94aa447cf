// SPDX-License-Identifier: Apache-2.0
/// Writes and reads plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/plan_bytes.hpp"
#include "fssdp/plan/plan_tables.hpp"

namespace fssdp {

namespace detail {

FSSDP_INLINE void word_writer::put(std::uint32_t word) { put(std::as_bytes(std::span{&word, 1})); }
FSSDP_INLINE void word_writer::put_long(std::uint64_t word) {
  put(std::as_bytes(std::span{&word, 1}));
}
FSSDP_INLINE void word_writer::put(placement const& where, table_layout const& layout) {
  auto replicas = std::vector<std::int32_t>{};
  for (auto const expert : first_n<expert_id>(layout.experts())) {
    replicas.clear();
    for (auto const rank : where.holders(expert))
      if (rank != layout.owner({expert, slice_id{0}})) replicas.push_back(rank.value());
    put(static_cast<std::uint32_t>(replicas.size()));
    put(std::as_bytes(std::span{replicas}));
  }
}

FSSDP_INLINE std::span<std::byte const> word_reader::bytes(std::size_t count) {
  require(count <= bytes_.size(), "plan_from_bytes: the bytes end ", count - bytes_.size(),
          " bytes too early; expected a whole plan");
  auto const result = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return result;
}
FSSDP_INLINE std::uint32_t word_reader::word() {
  auto result = std::uint32_t{};
  std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
  return result;
}
FSSDP_INLINE std::uint64_t word_reader::long_word() {
  auto result = std::uint64_t{};
  std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
  return result;
}
FSSDP_INLINE std::size_t word_reader::count_of(std::size_t bytes_each) {
  auto const count = std::size_t{word()};
  require(count <= bytes_.size() / bytes_each, "plan_from_bytes: ", bytes_.size(),
          " bytes are left; expected ", count, " times ", bytes_each);
  return count;
}
FSSDP_INLINE placement word_reader::replicas(table_layout const& layout) {
  auto where = placement{layout};
  for (auto const expert : first_n<expert_id>(layout.experts()))
    for (auto left = count_of(sizeof(std::int32_t)); left != 0; --left)
      where.add(expert, rank_id{number()});
  return where;
}

FSSDP_INLINE std::vector<std::size_t> word_reader::rows(int experts) {
  auto result = std::vector<std::size_t>{};
  for (int e = 0; e < experts; ++e) result.push_back(static_cast<std::size_t>(long_word()));
  return result;
}

/// At the beginning of every plan; differs for another byte order or version.
inline constexpr auto plan_mark = std::uint32_t{0x02706c66};
inline constexpr auto bytes_of_transfer = 7 * sizeof(std::int32_t);

/// Writes the transfers of a plan.
FSSDP_INLINE void put_transfers(word_writer& out, transfer_plan const& plan) {
  auto const transfers = plan.transfers();
  out.reserve(3 * sizeof(std::uint32_t) + transfers.size() * bytes_of_transfer);
  out.put(plan.pieces());
  out.put(static_cast<std::uint32_t>(transfers.size()));
  for (auto const& t : transfers) {
    std::int32_t const words[] = {t.order,
                                  t.round,
                                  t.chunk.expert.value(),
                                  t.chunk.slice.value(),
                                  t.source.value(),
                                  t.destination.value(),
                                  t.piece};
    static_assert(sizeof words == bytes_of_transfer);
    out.put(std::as_bytes(std::span{words}));
  }
}
FSSDP_INLINE transfer_plan take_transfers(word_reader& in, plan_tables tables) {
  auto const pieces = in.number();
  auto transfers = std::vector<transfer>(in.count_of(bytes_of_transfer));
  for (auto& t : transfers) {
    std::int32_t words[7];
    std::memcpy(words, in.bytes(bytes_of_transfer).data(), bytes_of_transfer);
    t = {.round = words[1],
         .chunk = {expert_id{words[2]}, slice_id{words[3]}},
         .source = rank_id{words[4]},
         .destination = rank_id{words[5]},
         .piece = words[6],
         .order = words[0]};
  }
  return {std::move(tables), std::move(transfers), pieces};
}

}  // namespace detail

FSSDP_INLINE std::vector<std::byte> plan_to_bytes(transfer_plan const& plan) {
  auto owners = std::vector<rank_id>{};
  for (auto const chunk : chunk_range{0, plan.experts() * plan.slices(), plan.slices()})
    owners.push_back(plan.owner(chunk));
  auto out = detail::word_writer{};
  out.put(detail::plan_mark);
  out.put_long(plan.hash_value());
  out.put(plan.where(),
          table_layout{{.ranks = plan.ranks(), .slices = plan.slices()}, std::move(owners)});
  out.put(plan.has_rows() ? 1 : 0);
  for (auto const expert : first_n<expert_id>(plan.has_rows() ? plan.experts() : 0))
    out.put_long(plan.rows(expert));
  detail::put_transfers(out, plan);
  auto const has_reduction = plan.reduction() != plan;
  out.put(has_reduction ? 1 : 0);
  if (has_reduction) detail::put_transfers(out, plan.reduction());
  return out.take();
}

FSSDP_INLINE transfer_plan plan_from_bytes(std::span<std::byte const> bytes,
                                           table_layout const& layout, topology const& topo) {
  auto in = detail::word_reader{bytes};
  auto const mark = in.word();
  detail::require(mark == detail::plan_mark, "plan_from_bytes: the bytes begin with ",
                  detail::hexadecimal{mark}, "; expected ", detail::hexadecimal{detail::plan_mark},
                  ", a plan of this version from a machine of this byte order");
  auto const hash = in.long_word();
  auto tables = detail::plan_tables{layout, in.replicas(layout), topo};
  if (in.word() != 0) tables.take_rows(in.rows(layout.experts()));
  auto plan = detail::take_transfers(in, tables);
  if (in.word() != 0) plan = plan.reduced_by(detail::take_transfers(in, tables));
  detail::require(in.is_at_end(), "plan_from_bytes: bytes are left after the plan; expected none");
  detail::require(plan.hash_value() == hash, "plan_from_bytes: a plan with the hash ",
                  detail::hexadecimal{plan.hash_value()}, "; expected ", detail::hexadecimal{hash},
                  ": the bytes are damaged, or of another layout or topology");
  return plan;
}

}  // namespace fssdp
