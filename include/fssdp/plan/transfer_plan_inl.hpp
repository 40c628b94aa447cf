// SPDX-License-Identifier: Apache-2.0
/// Checks transfers, and builds the tables of a plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/plan/transfer_table_inl.hpp"

namespace fssdp {

namespace detail {

FSSDP_INLINE void plan_tables::take_rows(std::vector<std::size_t> of_experts) {
  rows = std::move(of_experts);
  most_rows = 1;
  owned_offsets = materialized_offsets = remote_offsets = {};
  if (!rows.empty()) index_rows();
  hash = hashed().value();
}

FSSDP_INLINE void plan_tables::index_rows() {
  require(slices == 1, "plan: rows of experts that are cut into ", slices,
          " slices; expected whole experts");
  require(rows.size() == owner.size(), "plan: rows of ", rows.size(), " experts; expected ",
          owner.size());
  auto sum = std::size_t{0};
  for (auto const of_expert : rows) {
    require(of_expert <= most_sum_of_rows - sum, "plan: more than ", most_sum_of_rows,
            " rows in all; expected fewer");
    sum += of_expert;
  }
  most_rows = std::max<std::size_t>(1, *std::max_element(rows.begin(), rows.end()));
  auto const index = [this](per_rank<std::size_t>& offsets, auto const& experts) {
    auto at = std::size_t{0};
    offsets.items.push_back(at);
    for (auto const expert : experts) offsets.items.push_back(at += rows[expert.index()]);
    offsets.close();
  };
  auto in_slots = std::vector<std::vector<expert_id>>(owned.size());
  for (std::size_t rank = 0; rank < owned.size(); ++rank) in_slots[rank].resize(owned[rank]);
  for (auto const expert : first_n<expert_id>(where.experts()))
    in_slots[owner[expert.index()].index()][static_cast<std::size_t>(slot[expert.index()])] =
        expert;
  for (auto const rank : first_n<rank_id>(where.ranks())) {
    index(owned_offsets, in_slots[rank.index()]);
    index(materialized_offsets, materialized.of(rank));
    index(remote_offsets, remote.of(rank));
  }
}

FSSDP_INLINE void plan_tables::take(std::vector<transfer> list, int into_pieces) {
  pieces = into_pieces;
  reduction.reset();
  require(pieces >= 1 && pieces <= most_pieces, "plan: ", pieces, " pieces; expected 1 to ",
          most_pieces);
  for (auto const& t : list) check(t, list.size());
  transfers = {std::move(list), where.ranks()};
  transfers.link(owner.size() * static_cast<std::size_t>(pieces), [this](piece_id piece) {
    return position(piece.chunk) * static_cast<std::size_t>(pieces) +
           static_cast<std::size_t>(piece.index);
  });
  index_sent();
  index_links();
  hash = hashed().value();
}

FSSDP_INLINE hasher plan_tables::hashed() const {
  auto sum = hasher{};
  sum.mix(where.experts());
  sum.mix(slices, pieces);
  sum.mix(where.ranks());
  for (std::size_t e = 0; e < owner.size(); ++e) sum.mix(owner[e].value(), slot[e]);
  for (auto const first : materialized.begin) sum.mix(first);
  for (auto const expert : materialized.items) sum.mix(expert.value());
  transfers.mix_into(sum);
  for (auto const of_expert : rows) sum.mix(of_expert);
  return sum;
}

FSSDP_INLINE void plan_tables::check(transfer const& t, std::size_t count) const {
  auto const [expert, slice] = t.chunk;
  auto const ranks = where.ranks();
  auto const rank_ok = [&](rank_id r) { return r.value() >= 0 && r.value() < ranks; };
  require(expert.value() >= 0 && expert.value() < where.experts(), "plan: transfer of expert ",
          expert, "; expected 0 to ", where.experts() - 1);
  require(slice.value() >= 0 && slice.value() < slices, "plan: transfer of slice ", slice,
          " of expert ", expert, "; expected 0 to ", slices - 1);
  require(rank_ok(t.source) && rank_ok(t.destination) && t.source != t.destination,
          "plan: transfer of slice ", slice, " of expert ", expert, " from rank ", t.source,
          " to rank ", t.destination, "; expected two different ranks from 0 to ", ranks - 1);
  require(t.piece >= 0 && t.piece < pieces, "plan: transfer of piece ", t.piece, "; expected 0 to ",
          pieces - 1);
  require(owner[position(t.chunk)] != t.destination, "plan: rank ", t.destination, " gets slice ",
          slice, " of expert ", expert, "; expected a rank that does not own it");
  require(t.round >= 0 && t.round < static_cast<int>(count), "plan: transfer in round ", t.round,
          "; expected 0 or more, and fewer rounds than transfers");
}

FSSDP_INLINE void plan_tables::make_room() {
  auto const chunks = static_cast<std::size_t>(where.experts()) * static_cast<std::size_t>(slices);
  owner.resize(chunks);
  slot.resize(chunks);
  owned.resize(static_cast<std::size_t>(where.ranks()));
}

FSSDP_INLINE void plan_tables::index_owners() {
  for (auto const rank : owner) ++owned[rank.index()];
}

FSSDP_INLINE void plan_tables::index_experts() {
  auto const ranks = static_cast<std::size_t>(where.ranks());
  auto const for_each_held = [&](auto visit) {
    for (auto const expert : first_n<expert_id>(where.experts()))
      for (auto const rank : where.holders(expert))
        visit(rank, expert, slices == 1 && owner[position(expert)] == rank);
  };
  materialized.begin.assign(ranks + 1, 0);
  remote.begin.assign(ranks + 1, 0);
  for_each_held([&](rank_id rank, expert_id, bool in_place) {
    ++materialized.begin[rank.index() + 1];
    if (!in_place) ++remote.begin[rank.index() + 1];
  });
  for (auto* list : {&materialized, &remote}) {
    std::partial_sum(list->begin.begin(), list->begin.end(), list->begin.begin());
    list->items.resize(list->begin.back());
  }
  auto next = materialized.begin;
  auto next_remote = remote.begin;
  for_each_held([&](rank_id rank, expert_id expert, bool in_place) {
    materialized.items[next[rank.index()]++] = expert;
    if (!in_place) remote.items[next_remote[rank.index()]++] = expert;
  });
}

FSSDP_INLINE void plan_tables::index_sent() {
  shared = {};
  forwarded = {};
  relayed = {};
  auto sent = std::vector<piece_id>{};
  for (auto const rank : first_n<rank_id>(where.ranks())) {
    sent.clear();
    for (auto const& t : transfers.sends(rank)) sent.push_back(t.what());
    std::sort(sent.begin(), sent.end());
    sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
    for (auto const& piece : sent) {
      if (owner[position(piece.chunk)] == rank) {
        if (shared.items.size() == shared.begin.back() || shared.items.back() != piece.chunk)
          shared.items.push_back(piece.chunk);
      } else {
        forwarded.items.push_back(piece);
        if (!where.holds(rank, piece.chunk.expert)) relayed.items.push_back(piece);
      }
    }
    shared.close();
    forwarded.close();
    relayed.close();
  }
}

FSSDP_INLINE void plan_tables::index_links() {
  links.assign(owner.size(), {});
  for (auto const& t : transfers.all()) {
    auto& used = links[position(t.chunk)];
    (topology.same_node(t.source, t.destination) ? used.inside_nodes : used.between_nodes) = true;
  }
}

template <class Item>
[[nodiscard]] std::size_t position_in(std::span<Item const> list, Item const& item) {
  return static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), item) - list.begin());
}

}  // namespace detail

FSSDP_INLINE transfer_plan::transfer_plan(detail::plan_tables tables)
    : tables_{std::move(tables)} {}
FSSDP_INLINE transfer_plan::transfer_plan(detail::plan_tables tables,
                                          std::vector<transfer> transfers, int pieces)
    : tables_{tables_of(std::move(tables), std::move(transfers), pieces)} {}

FSSDP_INLINE transfer_plan transfer_plan::realised_by(std::vector<transfer> transfers,
                                                      int pieces) const {
  return {*tables_, std::move(transfers), pieces};
}

FSSDP_INLINE transfer_plan transfer_plan::with_rows(std::vector<std::size_t> rows) const {
  auto tables = *tables_;
  auto const back = std::exchange(tables.reduction, nullptr);
  tables.take_rows(rows);
  auto plan = transfer_plan{std::move(tables)};
  return back == nullptr ? plan : plan.reduced_by(back->with_rows(std::move(rows)));
}

FSSDP_INLINE std::size_t transfer_plan::slot_in(std::span<expert_id const> list, expert_id item) {
  return detail::position_in(list, item);
}
FSSDP_INLINE std::size_t transfer_plan::slot_in(std::span<chunk_id const> list,
                                                chunk_id const& item) {
  return detail::position_in(list, item);
}
FSSDP_INLINE std::size_t transfer_plan::slot_in(std::span<piece_id const> list,
                                                piece_id const& item) {
  return detail::position_in(list, item);
}

FSSDP_INLINE std::span<transfer const> transfer_plan::transfers() const {
  return {tables_->transfers.all().data(), tables_->transfers.all().size()};
}
FSSDP_INLINE std::span<expert_id const> transfer_plan::materialized(rank_id rank) const {
  return tables_->materialized.of(rank);
}
FSSDP_INLINE std::span<expert_id const> transfer_plan::remote(rank_id rank) const {
  return tables_->remote.of(rank);
}
FSSDP_INLINE std::span<chunk_id const> transfer_plan::shared(rank_id rank) const {
  return tables_->shared.of(rank);
}
FSSDP_INLINE std::span<piece_id const> transfer_plan::forwarded(rank_id rank) const {
  return tables_->forwarded.of(rank);
}
FSSDP_INLINE std::span<piece_id const> transfer_plan::relayed(rank_id rank) const {
  return tables_->relayed.of(rank);
}
FSSDP_INLINE std::span<int const> transfer_plan::feeders() const {
  return tables_->transfers.feeders();
}
FSSDP_INLINE std::span<transfer const> transfer_plan::sends(rank_id rank) const {
  return tables_->transfers.sends(rank);
}
FSSDP_INLINE std::span<transfer const> transfer_plan::receives(rank_id rank) const {
  return tables_->transfers.receives(rank);
}
FSSDP_INLINE std::span<int const> transfer_plan::followers(rank_id rank,
                                                           std::size_t received) const {
  return tables_->transfers.followers(rank, received);
}
FSSDP_INLINE std::span<transfer const> transfer_plan::batched_sends(rank_id rank) const {
  return tables_->transfers.batched_sends(rank);
}
FSSDP_INLINE std::span<transfer const> transfer_plan::sends(rank_id rank, int round) const {
  return tables_->transfers.sends(rank, round);
}
FSSDP_INLINE std::span<transfer const> transfer_plan::receives(rank_id rank, int round) const {
  return tables_->transfers.receives(rank, round);
}

FSSDP_INLINE transfer_plan transfer_plan::reduced_by(transfer_plan const& other) const {
  auto const same_scene = [](detail::plan_tables const& of) {
    return std::tie(of.slices, of.owner, of.slot, of.where, of.topology, of.rows);
  };
  detail::require(same_scene(*other.tables_) == same_scene(*tables_),
                  "plan: reduced_by a plan of another layout, placement, topology or rows; "
                  "expected the same");
  auto both = *tables_;
  both.reduction = std::make_shared<transfer_plan const>(other.reduction());
  auto hash = both.hashed();
  hash.mix(both.reduction->hash_value());
  both.hash = hash.value();
  return transfer_plan{std::move(both)};
}

FSSDP_INLINE detail::plan_tables transfer_plan::tables_of(detail::plan_tables tables,
                                                          std::vector<transfer> transfers,
                                                          int pieces) {
  tables.take(std::move(transfers), pieces);
  return tables;
}

FSSDP_INLINE bool transfer_plan::equals(transfer_plan const& other) const {
  if (tables_.shares_with(other.tables_)) return true;
  auto const gather = [](detail::plan_tables const& of) {
    return std::tie(of.slices, of.pieces, of.owner, of.slot, of.where, of.rows, of.transfers.all());
  };
  auto const& [mine, theirs] = std::tie(*tables_, *other.tables_);
  if (gather(mine) != gather(theirs)) return false;
  if (mine.reduction == nullptr || theirs.reduction == nullptr)
    return mine.reduction == theirs.reduction;
  return *mine.reduction == *theirs.reduction;
}

}  // namespace fssdp
