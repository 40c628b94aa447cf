// SPDX-License-Identifier: Apache-2.0
/// Attention, routers, norms and embeddings: one flat array, cut into a chunk per rank. It goes
/// through the same two collectives as the experts, under the placement `everywhere`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dense_parameters.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "model_shape.hpp"
#include "optimizer_shard.hpp"
#include "wire.hpp"

namespace moe_gpt {

template <class Real>
class dense_part {
 public:
  dense_part(model_shape const& shape, std::uint64_t seed, fssdp::rank_id rank,
             fssdp::topology const& topo, shard_memory const& memory = {},
             wire_coding const& coding = {})
      : layout_{shape},
        chunk_{(layout_.elements() + static_cast<std::size_t>(topo.ranks()) - 1) /
               static_cast<std::size_t>(topo.ranks())},
        shard_{fssdp::block_layout{{.experts = topo.ranks(), .ranks = topo.ranks()}}, rank, chunk_,
               memory},
        plan_{fssdp::make_plan(shard_.layout(), fssdp::everywhere{}(shard_.layout()), topo)},
        whole_{fssdp::make_partials<Real>(plan_, rank, chunk_)},
        partials_{fssdp::make_partials<Real>(plan_, rank, chunk_)},
        coding_{coding} {
    layout_.initialise(seed, first_element(), shard_.weights().tensors().front()[0]);
  }

  [[nodiscard]] dense_layout const& layout() const { return layout_; }
  [[nodiscard]] optimizer_shard<Real>& shard() { return shard_; }

  /// All parameters, after `gather`.
  [[nodiscard]] dense_view<Real const> weights() const {
    return layout_.view(flat<Real const>(whole_));
  }
  /// Where this rank's gradients are summed up, until `reduce`.
  [[nodiscard]] dense_view<Real> gradients() { return layout_.view(flat<Real>(partials_)); }
  void clear_gradients() { std::ranges::fill(flat<Real>(partials_), Real{0}); }

  /// Owners' chunks to all ranks.
  template <fssdp::communicator Comm>
  void gather(Comm& comm) {
    fssdp::sparse_all_gather(comm, plan_, std::as_const(shard_).weights(), whole_, coding_.gather,
                             {.scratch = &scratch_});
  }
  /// Everybody's gradients to the owners, summed.
  template <fssdp::communicator Comm>
  void reduce(Comm& comm) {
    fssdp::sparse_reduce_scatter(comm, plan_, std::as_const(partials_), shard_.gradients(),
                                 coding_.reduce, {.scratch = &scratch_});
  }

  void step(adamw_options const& options, int step, double gradient_scale) {
    shard_.step(options, step, gradient_scale, [this](std::size_t) {
      return layout_.decay_ranges(first_element(), chunk_.front());
    });
  }
  void descend(adamw_options const& options) {
    shard_.descend(options, [this](std::size_t) {
      return layout_.decay_ranges(first_element(), chunk_.front());
    });
  }

 private:
  /// The chunks of a buffer lie one after the other: they are the flat array, padded at the end.
  template <class T, class Buffer>
  static std::span<T> flat(Buffer& buffer) {
    auto const chunks = buffer.tensors().front();
    return {chunks.data, chunks.slots * chunks.elements};
  }
  [[nodiscard]] std::size_t first_element() const { return shard_.rank().index() * chunk_.front(); }

  dense_layout layout_;
  std::array<std::size_t, 1> chunk_;  // elements of a chunk
  optimizer_shard<Real> shard_;
  fssdp::transfer_plan plan_;
  fssdp::expert_buffer<Real> whole_;     // [ranks, chunk]
  fssdp::expert_buffer<Real> partials_;  // [ranks, chunk]
  wire_coding coding_;
  fssdp::scratch_memory scratch_;
};

}  // namespace moe_gpt
