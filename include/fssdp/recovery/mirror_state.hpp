// SPDX-License-Identifier: Apache-2.0
/// The copies that a rank keeps for one layout, and how they are made.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/recovery/mirror_partners.hpp"

namespace fssdp::detail {

/// The state of a mirrored_shard; its address does not change while submitted work uses it.
class mirror_state {
 public:
  mirror_state(table_layout layout, mirror_partners partners, rank_id rank,
               std::vector<rank_id> members, std::uint64_t number,
               std::vector<std::size_t> slot_bytes, std::pmr::memory_resource* memory)
      : layout_{std::move(layout)},
        partners_{std::move(partners)},
        me_{rank},
        members_{std::move(members)},
        number_{number},
        slot_bytes_{std::move(slot_bytes)},
        own_{owned(rank), slot_bytes_, memory},
        steps_(static_cast<std::size_t>(layout_.ranks())) {
    for (auto& generation : generations_)
      for (auto const other : partners_.mirrored_on(me_))
        generation.mirrors.emplace_back(owned(other), slot_bytes_, memory);
    hash_ = hashed();
  }

  [[nodiscard]] table_layout const& layout() const { return layout_; }
  [[nodiscard]] mirror_partners const& partners() const { return partners_; }
  [[nodiscard]] rank_id rank() const { return me_; }
  /// [ranks]: the original numbers of these ranks, before any were lost.
  [[nodiscard]] std::vector<rank_id> const& members() const { return members_; }
  /// The number of states before this one.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::span<std::size_t const> slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::size_t owned(rank_id rank) const { return layout_.owned(rank).size(); }
  [[nodiscard]] std::size_t chunk_bytes() const {
    auto sum = std::size_t{0};
    for (auto const bytes : slot_bytes_) sum += bytes;
    return sum;
  }
  [[nodiscard]] std::size_t memory_bytes() const {
    auto sum = own_.bytes();
    for (auto const& generation : generations_)
      for (auto const& mirror : generation.mirrors) sum += mirror.bytes();
    return sum;
  }
  [[nodiscard]] std::optional<std::uint64_t> newest() const {
    return std::max(generations_[0].step, generations_[1].step);
  }
  /// Whether all ranks have the newest step, as far as this rank knows.
  [[nodiscard]] bool is_settled() const { return own_step_ == newest(); }

  /// Sets the shard that is mirrored next, and its step.
  void begin(std::uint64_t step, tensor_list shard) {
    require(!is_under_way_, "mirrored_shard: step ", step,
            " while an earlier one is under way; expected finish in between");
    require(is_settled(), "mirrored_shard: step ", step, " after step ", step_,
            " has failed on the way; expected recover, and renew");
    require(newest() < std::optional{step}, "mirrored_shard: step ", step, " after step ", step_,
            "; expected a later one");
    step_ = step;
    shard_ = std::move(shard);
    is_under_way_ = true;
  }
  [[nodiscard]] bool is_under_way() const { return is_under_way_; }
  /// To be called when the submitted work has run or was dropped.
  void end() { is_under_way_ = false; }
  template <class Comm>
  void run(Comm& comm) {
    auto const done = under_way{is_under_way_};
    auto& generation = generations_[generations_[0].step <= generations_[1].step ? 0 : 1];
    generation.step.reset();
    comm.exchange([&](exchange_batch auto& batch) {
      set_label(batch, {hash_ ^ step_, 0});
      if (auto const partner = partners_.partner(me_); partner.has_value())
        for_each_slot(owned(me_), shard_.all(), [&](std::size_t k, std::size_t slot) {
          batch.send(shard_.all()[k][slot].bytes(), *partner);
        });
      for (std::size_t i = 0; auto const other : partners_.mirrored_on(me_)) {
        auto const mirror = generation.mirrors[i++].tensors();
        for_each_slot(owned(other), mirror,
                      [&](std::size_t k, std::size_t slot) { batch.recv(mirror[k][slot], other); });
      }
    });
    generation.step = step_;
    tell_all(comm);
    copy_own();
  }
  /// Makes the own copy of this step current, on which the remaining ranks have agreed; the shard
  /// itself is not read any more. Newer steps are forgotten, on all ranks.
  void keep(std::uint64_t step) {
    if (own_step_ != step && step_ == step) copy_own();
    require(own_step_ == step, "mirrored_shard: the state of step ", step, " on rank ", me_,
            "; expected the step that the ranks that are left agree on");
    for (auto& generation : generations_)
      if (generation.step > std::optional{step}) generation.step.reset();
  }
  [[nodiscard]] std::span<expert_tensor<std::byte> const> own() { return own_.tensors(); }
  /// @pre this rank keeps that mirror
  [[nodiscard]] std::span<expert_tensor<std::byte> const> mirror(rank_id of, std::uint64_t step) {
    auto const here = partners_.mirrored_on(me_);
    auto const at = static_cast<std::size_t>(std::ranges::find(here, of) - here.begin());
    auto const generation = std::ranges::find(generations_, step, &generation_of::step);
    require(generation != generations_.end(), "mirrored_shard: the mirror of rank ", of,
            " as of step ", step, " on rank ", me_,
            "; expected the step that the ranks that are left agree on");
    return generation->mirrors[at].tensors();
  }

 private:
  struct generation_of {
    std::optional<std::uint64_t> step;  // set when all of it has arrived; empty: incomplete
    std::vector<expert_buffer<std::byte>> mirrors;
  };
  struct under_way {
    explicit under_way(std::atomic<bool>& is) : is_{is} {}
    under_way(under_way const&) = delete;
    under_way& operator=(under_way const&) = delete;
    ~under_way() { is_ = false; }
    std::atomic<bool>& is_;
  };

  template <class Tensors, class Visit>
  static void for_each_slot(std::size_t slots, Tensors const& tensors, Visit visit) {
    for (std::size_t slot = 0; slot < slots; ++slot)
      for (std::size_t k = 0; k < tensors.size(); ++k)
        if (tensors[k].elements != 0) visit(k, slot);
  }
  /// Every rank tells all others that it has all of this step; after that no rank needs an older
  /// one.
  template <class Comm>
  void tell_all(Comm& comm) {
    auto const mine = std::as_bytes(std::span{&step_, 1});
    comm.exchange([&](exchange_batch auto& batch) {
      set_label(batch, {hash_ ^ step_, 1});
      name_values(batch, me_, layout_.ranks(), mine, std::as_writable_bytes(std::span{steps_}));
    });
    for (auto const other : first_n<rank_id>(layout_.ranks()))
      if (other != me_ && steps_[other.index()] != step_)
        throw ranks_disagree{other, text("mirrored_shard: rank ", me_, " mirrors step ", step_,
                                         ", rank ", other, " step ", steps_[other.index()])};
  }
  void copy_own() {
    own_step_.reset();
    auto const to = own_.tensors();
    for_each_slot(owned(me_), to, [&](std::size_t k, std::size_t slot) {
      copy_bytes(to[k][slot], shard_.all()[k][slot].bytes(), own_.bytes());
    });
    own_step_ = step_;
  }
  [[nodiscard]] std::uint64_t hashed() const {
    auto sum = hasher{};
    sum.mix(layout_.ranks());
    sum.mix(layout_.slices());
    for (auto const chunk : all_chunks(layout_)) sum.mix(layout_.owner(chunk).value());
    for (auto const rank : first_n<rank_id>(layout_.ranks()))
      sum.mix(partners_.partner(rank).value_or(rank).value());
    for (auto const bytes : slot_bytes_) sum.mix(bytes);
    for (auto const rank : members_) sum.mix(rank.value());
    sum.mix(number_);
    return sum.value();
  }

  table_layout layout_;
  mirror_partners partners_;
  rank_id me_;
  std::vector<rank_id> members_;  // [ranks]
  std::uint64_t number_;
  std::vector<std::size_t> slot_bytes_;  // [tensors]
  std::uint64_t hash_ = 0;
  expert_buffer<std::byte> own_;
  std::optional<std::uint64_t> own_step_;
  std::array<generation_of, 2> generations_;
  tensor_list shard_;                 // that was mirrored last, or is being mirrored
  std::uint64_t step_ = 0;            // of that
  std::vector<std::uint64_t> steps_;  // [ranks]: the step that each has reported
  std::atomic<bool> is_under_way_ = false;
};

}  // namespace fssdp::detail
