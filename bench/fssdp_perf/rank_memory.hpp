// SPDX-License-Identifier: Apache-2.0
/// What one rank gives to a collective and gets from it, and what it should get.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "names.hpp"
#include "small_integers.hpp"

namespace perf {

/// The buffers of one rank for one placement, filled with small integers.
///
/// ag: `from` [owned, elements], the shard; `to` [remote, elements], the replicas. rs: `from`
/// [materialized, elements], the partial gradients; `to` [owned, elements], the gradients. Where
/// the plan knows rows, experts are the blocks of an array: ag has the whole of it in `to`.
template <class T>
class rank_memory {
 public:
  using value_type = T;

  /// @param elements of an expert; of a row, if the plan knows rows
  /// @param resource where the buffers lie
  /// @pre the plan outlives it; experts are whole
  rank_memory(collective which, fssdp::transfer_plan const& plan, fssdp::rank_id rank,
              std::size_t elements,
              std::pmr::memory_resource* resource = std::pmr::new_delete_resource())
      : plan_{&plan},
        rank_{rank},
        which_{which},
        elements_{elements},
        number_{which == collective::ag ? 1 : plan.ranks(), exact_integers<T>()} {
    auto const sizes = std::span{&elements, 1};
    if (which == collective::ag) {
      from_ = fssdp::make_shard<T>(plan, rank, sizes, resource);
      to_ = plan.has_rows() ? fssdp::make_partials<T>(plan, rank, elements, resource)
                            : fssdp::make_replicas<T>(plan, rank, elements, resource);
    } else {
      from_ = fssdp::make_partials<T>(plan, rank, elements, resource);
      to_ = fssdp::make_shard<T>(plan, rank, sizes, resource);
    }
    fill();
  }

  [[nodiscard]] fssdp::expert_buffer<T> const& from() const { return from_; }
  [[nodiscard]] fssdp::expert_buffer<T>& to() { return to_; }
  [[nodiscard]] fssdp::scratch_memory& scratch() { return scratch_; }
  [[nodiscard]] fssdp::rank_id rank() const { return rank_; }
  [[nodiscard]] fssdp::transfer_plan const& plan() const { return *plan_; }
  [[nodiscard]] collective which() const { return which_; }
  /// Of an expert, or of a row.
  [[nodiscard]] std::size_t elements() const { return elements_; }
  [[nodiscard]] std::size_t elements(fssdp::expert_id expert) const {
    return elements_ * plan_->rows(expert);
  }
  [[nodiscard]] std::size_t most_elements() const { return elements_ * plan_->most_rows(); }
  /// Memory for something on the way.
  [[nodiscard]] static fssdp::detail::aligned_memory make_block(std::size_t bytes) {
    return fssdp::detail::allocate_aligned(bytes);
  }

  /// An expert in `from` or in `to`.
  /// @pre it is there
  [[nodiscard]] std::span<T const> given(fssdp::expert_id expert) const {
    return from_.tensors()
        .front()[which_ == collective::ag ? plan_->owner_slot(expert)
                                          : slot(plan_->materialized(rank_), expert)];
  }
  [[nodiscard]] std::span<T> taken(fssdp::expert_id expert) {
    return to_.tensors()
        .front()[which_ == collective::ag ? slot(copies(), expert) : plan_->owner_slot(expert)];
  }

  /// The experts that have a place in `to`.
  [[nodiscard]] std::vector<fssdp::expert_id> wanted() const {
    if (which_ == collective::ag) return {copies().begin(), copies().end()};
    auto owned = std::vector<fssdp::expert_id>{};
    for (auto const expert : plan_->materialized(rank_))
      if (plan_->owner(expert) == rank_) owned.push_back(expert);
    return owned;
  }

  /// Writes into `to` what no element should be.
  void spoil() {
    for (auto const expert : wanted()) std::ranges::fill(taken(expert), static_cast<T>(1e4F));
  }
  /// The elements of `to` that are not what they should be.
  [[nodiscard]] std::size_t wrong() {
    auto count = std::size_t{0};
    for (auto const expert : wanted()) {
      auto const rows = contributors(expert);
      auto const values = taken(expert);
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto sum = 0;
        for (auto const row : rows) sum += number_(row, i);
        if (static_cast<double>(values[i]) != sum) ++count;
      }
    }
    return count;
  }

 private:
  /// What has a place in `to` of a gather.
  [[nodiscard]] std::span<fssdp::expert_id const> copies() const {
    return plan_->has_rows() ? plan_->materialized(rank_) : plan_->remote(rank_);
  }
  static std::size_t slot(std::span<fssdp::expert_id const> list, fssdp::expert_id expert) {
    return fssdp::transfer_plan::slot_in(list, expert);
  }
  /// Names the data of an expert on a rank.
  [[nodiscard]] std::uint64_t row(fssdp::rank_id rank, fssdp::expert_id expert) const {
    return expert.index() * static_cast<std::uint64_t>(plan_->ranks()) + rank.index();
  }
  [[nodiscard]] std::vector<std::uint64_t> contributors(fssdp::expert_id expert) const {
    if (which_ == collective::ag) return {row(plan_->owner(expert), expert)};
    auto rows = std::vector<std::uint64_t>{};
    for (auto const rank : plan_->where().holders(expert)) rows.push_back(row(rank, expert));
    return rows;
  }
  void fill() {
    auto const data = from_.tensors().front();
    for (auto const expert : plan_->materialized(rank_)) {
      if (which_ == collective::ag && plan_->owner(expert) != rank_) continue;
      auto const values = data[which_ == collective::ag ? plan_->owner_slot(expert)
                                                        : slot(plan_->materialized(rank_), expert)];
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<T>(static_cast<float>(number_(row(rank_, expert), i)));
    }
  }

  fssdp::transfer_plan const* plan_;
  fssdp::rank_id rank_;
  collective which_;
  std::size_t elements_;
  small_integers number_;
  fssdp::expert_buffer<T> from_;
  fssdp::expert_buffer<T> to_;
  fssdp::scratch_memory scratch_;
};

}  // namespace perf
