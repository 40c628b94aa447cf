// SPDX-License-Identifier: Apache-2.0
/// What a rank keeps so that no shard is lost with its owner: its own as of the last mirrored step,
/// and mirrors of its partners' in two generations.
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

/// Mirrors the shard of every rank with its partner: parameters, moments, residuals, whatever an
/// owner has. When ranks are lost, `recover` takes their shards from the mirrors.
///
///     auto mirror = fssdp::mirrored_shard{layout, partners, comm.rank(), state};
///     auto own = comm.duplicate();
///     auto behind = fssdp::on_stream(own, stream);
///     for each step:   forward and backward
///                      mirror.finish(behind);         // before parameters change
///                      optimizer
///                      mirror.write(behind, step, state);
///
/// A step is whole on a rank when all mirrors that it keeps have arrived; the number of the step is
/// written last, and the generation before is left alone. Then all ranks tell each other, and copy
/// what they own themselves: a rank whose partner is lost can go back to that step, too.
///
/// When owners change, `renew` it: what was mirrored of the old owners stays until a step of the
/// new ones is finished.
class mirrored_shard {
 public:
  /// @param shard  the memory of a rank, [owned, slice_elements] per tensor, of any types, as
  ///               bytes_of gives it: here only its sizes count, the same on all ranks
  /// @param memory where copies lie: ordinary memory, or files (file_memory). It outlives this
  /// @cost memory for this rank's own shard, and twice for each that is mirrored here
  /// @throws argument_error if the layout breaks its law, partners or rank are of other ranks, or
  ///         slots have rows; what the memory throws
  template <shard_layout Layout, tensor_memory Shard>
  mirrored_shard(Layout const& layout, mirror_partners const& partners, rank_id rank, Shard&& shard,
                 std::pmr::memory_resource* memory = std::pmr::new_delete_resource())
      : memory_{memory} {
    auto members = std::vector<rank_id>{};
    for (auto const member : first_n<rank_id>(layout.ranks())) members.push_back(member);
    make(layout, partners, rank, detail::tensor_list{shard}, std::move(members), 0);
  }

  /// From now on, other owners: after a reshard, or when ranks were lost. Every rank calls it,
  /// before it writes the next step. Until that is finished, what was mirrored before is kept
  /// beside it.
  /// @param ranks [layout.ranks()]: which ranks of those at first these are, survivors::ranks();
  ///              empty: as before
  /// @pre nothing is under way
  /// @throws as the constructor; argument_error if the last step has failed on the way, and there
  ///         was no recover since
  template <shard_layout Layout, tensor_memory Shard>
  void renew(Layout const& layout, mirror_partners const& partners, rank_id rank, Shard&& shard,
             std::span<rank_id const> ranks = {}) {
    forget_old();
    detail::require(state_->is_settled(),
                    "mirrored_shard: renewed after a step that has failed on ",
                    "the way; expected recover before");
    auto members = state_->members();
    if (!ranks.empty()) members.assign(ranks.begin(), ranks.end());
    detail::require(members.size() == static_cast<std::size_t>(layout.ranks()),
                    "mirrored_shard: renewed for ", layout.ranks(), " ranks, of which ",
                    members.size(), " are named; expected as many");
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
    // Of owners whose state nobody has mirrored, nothing is kept.
    if (!old_->newest().has_value()) old_ = std::move(before);
  }

  /// Mirrors the state after a step, on the stream of the communicator.
  /// @param step  later than all before, and the same on all ranks; it need not be the next one
  /// @param shard as that of the constructor; in slot order, in memory of the host
  /// @pre every rank calls. The memory is not written until finish has returned
  /// @cost two exchanges: bytes_per_step() in a message for each tensor of a chunk, and one of 8
  ///       bytes to every other rank; copies what this rank owns. Allocates in the first steps only
  /// @throws argument_error before anything is sent; transport errors: ranks_disagree if steps,
  ///         owners, partners or sizes are not the same
  template <communicator Comm, tensor_memory Shard>
  requires outlives_the_call<Shard, Comm>
  void write(Comm& comm, std::uint64_t step, Shard&& shard) {
    static_assert(!std::is_same_v<memory_space_of<Comm>, device_memory>,
                  "mirrors lie in memory of the host: copy the shard there (staged_shard), and "
                  "mirror it over a communicator of the host");
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
  /// Waits until the step is mirrored. Does nothing if none is under way.
  /// @cost no message of its own
  /// @throws what mirroring it has thrown
  template <communicator Comm>
  void finish(Comm& comm) {
    auto const time = timed{exposed_seconds_};
    try {
      synchronize(comm);
    } catch (...) {
      state_->end();  // the stream may have dropped it
      throw;
    }
    forget_old();
  }

  /// The newest step that is whole here, of the owners now or, until there is one, of those before.
  /// @pre nothing is under way
  [[nodiscard]] std::optional<std::uint64_t> newest() const {
    auto const step = state_->newest();
    return step.has_value() || old_ == nullptr ? step : old_->newest();
  }
  /// What this rank sends in a step.
  [[nodiscard]] std::uint64_t bytes_per_step() const {
    auto const has_partner = state_->partners().partner(state_->rank()).has_value();
    auto const others = static_cast<std::uint64_t>(state_->layout().ranks() - 1);
    return (has_partner ? state_->owned(state_->rank()) * state_->chunk_bytes() : 0) +
           others * sizeof(std::uint64_t);
  }
  /// The memory that copies take.
  [[nodiscard]] std::size_t memory_bytes() const {
    return state_->memory_bytes() + (old_ != nullptr ? old_->memory_bytes() : 0);
  }
  /// How long the caller has waited in write and finish, all steps together.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

  [[nodiscard]] table_layout const& layout() const { return state_->layout(); }
  [[nodiscard]] mirror_partners const& partners() const { return state_->partners(); }
  [[nodiscard]] rank_id rank() const { return state_->rank(); }
  /// For `recover`: of the owners now, and of those before, if that is kept.
  [[nodiscard]] detail::mirror_state& state() { return *state_; }
  [[nodiscard]] detail::mirror_state* old_state() { return old_.get(); }
  /// Likewise: the ranks that are left agree on one of the two.
  void choose_old() { state_ = std::move(old_); }
  void choose_new() { old_.reset(); }

 private:
  /// Adds the time that it lives.
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
  /// Once all ranks have a step of the new owners, nobody needs the old ones.
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
  std::unique_ptr<detail::mirror_state> old_;  // until a step of the new owners is whole
  double exposed_seconds_ = 0;
};

}  // namespace fssdp
