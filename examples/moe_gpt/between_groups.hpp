// SPDX-License-Identifier: Apache-2.0
/// What groups of ranks exchange, and when. Inside a group everything is as without groups.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exchange_way.hpp"
#include "expert_layouts.hpp"
#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/placement/loads.hpp"
#include "options.hpp"

namespace moe_gpt {

/// What a rank owns, where it is of floats.
/// @throws std::invalid_argument if it is of another type: only floats cross between groups
template <class Real>
[[nodiscard]] owned_tensors owned(fssdp::expert_buffer<Real>& experts,
                                  fssdp::expert_buffer<Real>& dense) {
  if constexpr (std::same_as<Real, float>)
    return {experts.tensors(), dense.tensors()};
  else
    throw std::invalid_argument{"--groups: parameters of another type; expected floats"};
}

/// The communicators of a rank: of its group, and of its counterparts, twice, as an exchange may be
/// under way while the ranks count.
struct group_communicators {
  fssdp::communicator_ref inside;
  fssdp::communicator_ref between;
  fssdp::communicator_ref exchanges;
};

/// One rank's part of it: experts, and the chunk of the dense parameters.
class between_groups {
 public:
  between_groups(group_communicators const& comms, options const& chosen,
                 expert_layouts const& layouts, fssdp::rank_id rank, std::size_t dense_elements);

  [[nodiscard]] int groups() const { return comms_.between.size(); }
  [[nodiscard]] int group() const { return comms_.between.rank().value(); }
  /// Whether gradients are averaged, and in place of the gradient comes the sign of a momentum:
  /// then the optimizer is plain SGD.
  [[nodiscard]] bool averages_gradients() const { return averages_gradients_; }
  [[nodiscard]] bool sends_momentum() const { return sends_momentum_; }
  /// That this rank has sent so far; what is under way counts when it is over.
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_; }

  /// The mean over groups of what each has averaged over its ranks.
  [[nodiscard]] std::vector<double> mean(std::vector<double> const& mine);
  /// The mean over groups: what all of them choose owners by.
  [[nodiscard]] std::vector<fssdp::expert_loads> mean(std::vector<fssdp::expert_loads> loads);

  /// All groups have equal parameters now.
  void begin(owned_tensors const& weights) { way_->begin(weights); }
  /// Averages all gradients that this rank owns.
  /// @param scale of the gradients, before
  /// @param loads of the experts of all layers in this group, [layers][experts]
  void average(owned_tensors const& gradients, double rate, double scale,
               std::span<fssdp::expert_loads const> loads);
  /// The optimizer has done a step: so many have been done now.
  void end_step(owned_tensors const& weights, int steps, double rate) {
    way_->end_step(weights, steps, rate);
  }
  /// The training is over.
  void finish(owned_tensors const& weights) { way_->finish(weights); }

  /// Before a checkpoint, and before owners change.
  void drain(owned_tensors const& weights) { way_->drain(weights); }
  /// What is remembered, as parts of a checkpoint: of this group, beside the parts of its model.
  /// @tparam Part saved_part or loaded_part
  template <class Part>
  void add_parts(std::vector<Part>& parts) {
    for (auto const& kept : way_->kept()) {
      add_experts(parts, kept);
      auto const chunk = kept.dense->tensors()[kept.first];
      if (chunk.elements == 0) continue;
      auto const ranks = place_.chunks.ranks();
      parts
          .emplace_back("dense " + std::string{kept.name},
                        fssdp::block_layout{{.experts = 1, .ranks = ranks, .slices = ranks}},
                        place_.rank, std::vector<fssdp::whole_tensor>{{"dense", {dense_elements_}}},
                        fssdp::tensor_pattern{"{tensor}.{group}"})
          .add(std::string{kept.name}, std::span{&chunk, 1});
    }
  }
  [[nodiscard]] std::vector<double> position() { return way_->position(); }
  void resume(std::span<double const> position) { way_->resume(position); }

  /// What is remembered of experts goes to other owners, in all groups alike.
  void reshard(expert_layouts const& next);

 private:
  /// Those tensors of an arena that there are.
  template <class Part>
  void add_experts(std::vector<Part>& parts, kept_part const& kept) const {
    constexpr auto names = std::array{"w1", "b1", "w2", "b2"};
    auto const tensors = kept.experts->tensors().subspan(4 * kept.first, 4);
    auto about = std::vector<fssdp::whole_tensor>{};
    auto views = std::vector<fssdp::expert_tensor<float>>{};
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (tensors[k].elements == 0) continue;
      about.push_back({names[k], {kept.is_factor ? tensors[k].elements : whole_[k]}});
      views.push_back(tensors[k]);
    }
    if (views.empty()) return;
    parts
        .emplace_back("between " + std::string{kept.name}, place_.layouts, place_.rank,
                      std::move(about))
        .add(std::string{kept.name}, views);
  }

  group_communicators comms_;
  fssdp::counting<fssdp::communicator_ref> counted_;
  exchange_place place_;
  std::array<std::size_t, 4> whole_;  // elements of the tensors of an expert
  std::uint64_t dense_elements_;
  bool averages_gradients_;
  bool sends_momentum_ = false;
  std::uint64_t bytes_ = 0;  // as counted when no exchange was in progress
  std::unique_ptr<exchange_way> way_;
};

}  // namespace moe_gpt
