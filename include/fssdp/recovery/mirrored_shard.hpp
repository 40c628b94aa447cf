// SPDX-License-Identifier: Apache-2.0
/// What a rank keeps so that no shard is lost with its owner: its own as of the last mirrored step,
/// and mirrors of its partners' in two generations.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
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

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/recovery/mirror_partners.hpp"

namespace fssdp {

namespace detail {

/// What a mirrored_shard consists of: it stays where it is while work that was submitted uses it.
class mirror_state {
 public:
  mirror_state(table_layout layout, mirror_partners partners, rank_id rank,
               std::vector<std::size_t> slot_bytes, std::pmr::memory_resource* memory)
      : layout_{std::move(layout)},
        partners_{std::move(partners)},
        me_{rank},
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

  /// What is to be mirrored next, and of which step it is.
  void begin(std::uint64_t step, tensor_list shard) {
    require(!is_under_way_, "mirrored_shard: step ", step,
            " while an earlier one is under way; expected finish in between");
    require(own_step_ == newest(), "mirrored_shard: step ", step, " after step ", step_,
            " has failed on the way; expected recover, and another mirrored_shard");
    require(newest() < std::optional{step}, "mirrored_shard: step ", step, " after step ", step_,
            "; expected a later one");
    step_ = step;
    shard_ = std::move(shard);
    is_under_way_ = true;
  }
  [[nodiscard]] bool is_under_way() const { return is_under_way_; }
  /// Whatever was begun has run, or will not.
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
  /// Keeps what this rank owned when that step was mirrored, on which the ranks that are left agree:
  /// the memory of its shard is not looked at any more. What is newer is forgotten, as they do.
  void keep(std::uint64_t step) {
    if (own_step_ != step && step_ == step) copy_own();
    require(own_step_ == step, "mirrored_shard: the state of step ", step, " on rank ", me_,
            "; expected the step that the ranks that are left agree on");
    for (auto& generation : generations_)
      if (generation.step > std::optional{step}) generation.step.reset();
  }
  [[nodiscard]] std::span<expert_tensor<std::byte> const> own() { return own_.tensors(); }
  /// @pre it is mirrored here
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
    std::optional<std::uint64_t> step;  // when all of it is there; none: it is not whole
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
  /// Every rank tells all others that it has all of this step: then nobody needs an older one.
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
    return sum.value();
  }

  table_layout layout_;
  mirror_partners partners_;
  rank_id me_;
  std::vector<std::size_t> slot_bytes_;  // [tensors]
  std::uint64_t hash_ = 0;
  expert_buffer<std::byte> own_;
  std::optional<std::uint64_t> own_step_;
  std::array<generation_of, 2> generations_;
  tensor_list shard_;                 // what was mirrored last, or is
  std::uint64_t step_ = 0;            // likewise
  std::vector<std::uint64_t> steps_;  // [ranks]: what all say
  std::atomic<bool> is_under_way_ = false;
};

}  // namespace detail

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
/// It is for one layout: after a reshard make another, and keep this one until the first step of that
/// one is finished.
class mirrored_shard {
 public:
  /// @param shard  the memory of a rank, [owned, slice_elements] per tensor, of any types, as bytes_of
  ///               gives it: here only its sizes count, the same on all ranks
  /// @param memory where copies lie: ordinary memory, or files (file_memory). It outlives this
  /// @cost memory for this rank's own shard, and twice for each that is mirrored here
  /// @throws argument_error if the layout breaks its law, partners or rank are of other ranks, or
  ///         slots have rows; what the memory throws
  template <shard_layout Layout, tensor_memory Shard>
  mirrored_shard(Layout const& layout, mirror_partners const& partners, rank_id rank, Shard&& shard,
                 std::pmr::memory_resource* memory = std::pmr::new_delete_resource()) {
    check_layout(layout);
    detail::require(partners.ranks() == layout.ranks(), "mirrored_shard: partners of ",
                    partners.ranks(), " ranks; expected ", layout.ranks());
    detail::require(rank.value() >= 0 && rank.value() < layout.ranks(), "mirrored_shard: rank ",
                    rank, "; expected 0 to ", layout.ranks() - 1);
    detail::require(same_slots(layout, rank), "mirrored_shard: the slots of rank ", rank,
                    " do not ascend with its chunks; expected a table_layout of the same owners");
    auto sizes = std::vector<std::size_t>{};
    auto const list = detail::tensor_list{shard};
    for (auto const& tensor : list.all()) sizes.push_back(bytes_in(tensor));
    state_ = std::make_unique<detail::mirror_state>(as_table(layout), partners, rank,
                                                    std::move(sizes), memory);
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
  }

  /// The newest step that is whole here.
  /// @pre nothing is under way
  [[nodiscard]] std::optional<std::uint64_t> newest() const { return state_->newest(); }
  /// What this rank sends in a step.
  [[nodiscard]] std::uint64_t bytes_per_step() const {
    auto const has_partner = state_->partners().partner(state_->rank()).has_value();
    auto const others = static_cast<std::uint64_t>(state_->layout().ranks() - 1);
    return (has_partner ? state_->owned(state_->rank()) * state_->chunk_bytes() : 0) +
           others * sizeof(std::uint64_t);
  }
  /// The memory that copies take.
  [[nodiscard]] std::size_t memory_bytes() const { return state_->memory_bytes(); }
  /// How long the caller has waited in write and finish, all steps together.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

  [[nodiscard]] table_layout const& layout() const { return state_->layout(); }
  [[nodiscard]] mirror_partners const& partners() const { return state_->partners(); }
  [[nodiscard]] rank_id rank() const { return state_->rank(); }
  /// For `recover`.
  [[nodiscard]] detail::mirror_state& state() { return *state_; }

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

  std::unique_ptr<detail::mirror_state> state_;
  double exposed_seconds_ = 0;
};

}  // namespace fssdp
