// SPDX-License-Identifier: Apache-2.0
/// Mirrors of shards, so that no shard is lost with its owner: a rank keeps a copy of its own shard
/// as of the last mirrored step, and mirrors of its partners' shards in two generations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/recovery/mirror_partners.hpp"
#include "fssdp/recovery/mirror_state.hpp"

namespace fssdp {

/// Mirrors the shard of every rank on its partner: parameters, optimizer state, residuals and
/// anything else that an owner has. When ranks are lost, `recover` takes their shards from the
/// mirrors.
///
///     auto mirror = fssdp::mirrored_shard{layout, partners, comm.rank(), state};
///     auto own = comm.duplicate();
///     auto behind = fssdp::on_stream(own, stream);
///     for each step:   forward and backward
///                      mirror.finish(behind);         // before parameters change
///                      optimizer
///                      mirror.write(behind, step, state);
///
/// A step is complete on a rank when all mirrors that it keeps have arrived: the number of the step
/// is written last, and the generation before is not changed. Then all ranks notify one another,
/// and copy their own shards, so that a rank whose partner is lost can return to that step, too.
///
/// When owners change, call `renew`: mirrors of the old owners are kept until a step of the new
/// ones is complete.
class mirrored_shard {
 public:
  /// @param shard  the memory of a rank, [owned, slice_elements] per tensor, of any types, as
  ///               bytes_of returns it. Only sizes are used here; they are the same on all ranks
  /// @param memory where copies are allocated: ordinary memory, or files (file_memory). It outlives
  ///        this
  /// @cost memory for this rank's own shard, and twice that of each shard that it mirrors
  /// @throws argument_error if the layout breaks its law, partners or rank do not fit the layout,
  ///         or slots have rows; exceptions of the memory
  template <shard_layout Layout, tensor_memory Shard>
  mirrored_shard(Layout const& layout, mirror_partners const& partners, rank_id rank, Shard&& shard,
                 std::pmr::memory_resource* memory = std::pmr::new_delete_resource())
      : memory_{memory} {
    auto members = std::vector<rank_id>{};
    for (auto const member : first_n<rank_id>(layout.ranks())) members.push_back(member);
    make(layout, partners, rank, detail::tensor_list{shard}, std::move(members), 0);
  }

  /// Sets new owners: after a reshard, or when ranks were lost. Every rank calls it, before it
  /// writes the next step. Until that step is complete, the mirrors of the old owners are kept as
  /// well.
  /// @param ranks [layout.ranks()]: the original numbers of these ranks, survivors::ranks(); empty:
  ///        unchanged
  /// @pre no step is in progress
  /// @throws as the constructor; argument_error if the last step has failed, and recover was not
  ///         called since
  template <shard_layout Layout, tensor_memory Shard>
  void renew(Layout const& layout, mirror_partners const& partners, rank_id rank, Shard&& shard,
             std::span<rank_id const> ranks = {}) {
    forget_old();
    detail::require(state_->is_settled(), "mirrored_shard: renew after a step that has failed; ",
                    "expected recover before");
    auto members = state_->members();
    if (!ranks.empty()) members.assign(ranks.begin(), ranks.end());
    detail::require(members.size() == static_cast<std::size_t>(layout.ranks()),
                    "mirrored_shard: renew for ", layout.ranks(), " ranks with ", members.size(),
                    " names of ranks; expected as many");
    auto const number = state_->number() + 1;
    auto before = std::move(old_);
    old_ = std::move(state_);
    try {
      make(layout, partners, rank, detail::tensor_list{shard}, std::move(members), number);
    } catch (...) {
      state_ = std::move(old_);
      old_ = std::move(before);
      throw;
    }
    // Nothing is kept of owners whose state was never mirrored.
    if (!old_->newest().has_value()) old_ = std::move(before);
  }

  /// Mirrors the state after a step, on the stream of the communicator.
  /// @param step  larger than all before, and equal on all ranks; steps may be skipped
  /// @param shard as in the constructor; in slot order, in host memory
  /// @pre every rank calls. The memory must not be written until finish has returned
  /// @cost two exchanges: bytes_per_step() in one message for each tensor of a chunk, and 8 bytes
  ///       to every other rank; a copy of what this rank owns. Allocates in the first steps only
  /// @throws argument_error before anything is sent; transport errors: ranks_disagree if steps,
  ///         owners, partners or sizes differ
  template <communicator Comm, tensor_memory Shard>
  requires outlives_the_call<Shard, Comm>
  void write(Comm& comm, std::uint64_t step, Shard&& shard) {
    static_assert(!std::is_same_v<memory_space_of<Comm>, device_memory>,
                  "mirrors are in host memory: expected a copy of the shard there (staged_shard), "
                  "and a communicator of host memory");
    auto const time = timed{exposed_seconds_};
    forget_old();
    auto list = detail::tensor_list{shard};
    check(comm.rank(), comm.size(), list.all());
    state_->begin(step, std::move(list));
    try {
      submit(comm, [state = state_.get()](auto& of) { state->run(of); });
    } catch (...) {
      state_->end();
      throw;
    }
  }
  /// Waits until the step is mirrored. Does nothing if no step is in progress.
  /// @cost no messages of its own
  /// @throws the error of mirroring it
  template <communicator Comm>
  void finish(Comm& comm) {
    auto const time = timed{exposed_seconds_};
    try {
      synchronize(comm);
    } catch (...) {
      state_->end();  // the stream may have dropped the work
      throw;
    }
    forget_old();
  }

  /// The newest step that is complete here, of the current owners or, until there is one, of the
  /// old ones.
  /// @pre no step is in progress
  [[nodiscard]] std::optional<std::uint64_t> newest() const {
    auto const step = state_->newest();
    return step.has_value() || old_ == nullptr ? step : old_->newest();
  }
  /// The bytes that this rank sends in a step.
  [[nodiscard]] std::uint64_t bytes_per_step() const {
    auto const has_partner = state_->partners().partner(state_->rank()).has_value();
    auto const others = static_cast<std::uint64_t>(state_->layout().ranks() - 1);
    return (has_partner ? state_->owned(state_->rank()) * state_->chunk_bytes() : 0) +
           others * sizeof(std::uint64_t);
  }
  /// The memory of all copies.
  [[nodiscard]] std::size_t memory_bytes() const {
    return state_->memory_bytes() + (old_ != nullptr ? old_->memory_bytes() : 0);
  }
  /// How long the caller has waited in write and finish, summed over all steps.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

  [[nodiscard]] table_layout const& layout() const { return state_->layout(); }
  [[nodiscard]] mirror_partners const& partners() const { return state_->partners(); }
  [[nodiscard]] rank_id rank() const { return state_->rank(); }
  /// For `recover`: the state of the current owners; that of the old ones if it is kept.
  [[nodiscard]] detail::mirror_state& state() { return *state_; }
  [[nodiscard]] detail::mirror_state* old_state() { return old_.get(); }
  /// For `recover`: the remaining ranks have agreed to use the old owners.
  void choose_old() { state_ = std::move(old_); }
  void choose_new() { old_.reset(); }

 private:
  /// Adds its lifetime to a sum.
  class timed {
   public:
    explicit timed(double& sum) : sum_{sum} {}
    timed(timed const&) = delete;
    timed& operator=(timed const&) = delete;
    ~timed() { sum_ += std::chrono::duration<double>(clock::now() - begun_).count(); }

   private:
    using clock = std::chrono::steady_clock;
    double& sum_;
    clock::time_point begun_ = clock::now();
  };

  template <class Layout>
  void make(Layout const& layout, mirror_partners const& partners, rank_id rank,
            detail::tensor_list const& shard, std::vector<rank_id> members, std::uint64_t number) {
    check_layout(layout);
    detail::require(partners.ranks() == layout.ranks(), "mirrored_shard: partners of ",
                    partners.ranks(), " ranks; expected ", layout.ranks());
    detail::require(rank.value() >= 0 && rank.value() < layout.ranks(), "mirrored_shard: rank ",
                    rank, "; expected 0 to ", layout.ranks() - 1);
    detail::require(same_slots(layout, rank), "mirrored_shard: the slots of rank ", rank,
                    " do not ascend with its chunks; expected a table_layout of the same owners");
    auto sizes = std::vector<std::size_t>{};
    for (auto const& tensor : shard.all()) sizes.push_back(bytes_in(tensor));
    state_ = std::make_unique<detail::mirror_state>(
        as_table(layout), partners, rank, std::move(members), number, std::move(sizes), memory_);
  }
  /// Frees the old state when all ranks have a step of the new owners.
  void forget_old() {
    if (!state_->is_under_way() && state_->newest().has_value() && state_->is_settled())
      old_.reset();
  }
  template <class Layout>
  [[nodiscard]] static bool same_slots(Layout const& layout, rank_id rank) {
    auto before = std::optional<chunk_id>{};
    for (chunk_id const chunk : layout.owned(rank)) {
      if (before.has_value() && chunk < *before) return false;
      before = chunk;
    }
    return true;
  }
  [[nodiscard]] static std::size_t bytes_in(detail::tensor_view const& tensor) {
    detail::require(tensor.offsets == nullptr,
                    "mirrored_shard: a tensor whose slots have rows; expected slots of equal size");
    return tensor.elements * tensor.element_bytes;
  }
  void check(rank_id rank, int ranks, std::span<detail::tensor_view const> tensors) const {
    auto const& of = *state_;
    detail::require(ranks == of.layout().ranks() && rank == of.rank(), "mirrored_shard: rank ",
                    rank, " of ", ranks, "; expected rank ", of.rank(), " of ",
                    of.layout().ranks());
    detail::require(tensors.size() == of.slot_bytes().size(), "mirrored_shard: ", tensors.size(),
                    " tensors; expected ", of.slot_bytes().size());
    for (std::size_t k = 0; k < tensors.size(); ++k)
      detail::require(
          bytes_in(tensors[k]) == of.slot_bytes()[k] && tensors[k].slots >= of.owned(rank),
          "mirrored_shard: tensor ", k, " has ", tensors[k].slots, " slots of ",
          bytes_in(tensors[k]), " bytes; expected ", of.owned(rank), " of ", of.slot_bytes()[k]);
  }

  std::pmr::memory_resource* memory_;
  std::unique_ptr<detail::mirror_state> state_;
  std::unique_ptr<detail::mirror_state> old_;  // until a step of the new owners is complete
  double exposed_seconds_ = 0;
};

}  // namespace fssdp
