// SPDX-License-Identifier: Apache-2.0
/// One way to synchronize groups: what they exchange, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "expert_layouts.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/placement/loads.hpp"

namespace moe_gpt {

/// What this rank owns: the arena of experts, and its chunk of the dense parameters.
struct owned_tensors {
  std::span<fssdp::expert_tensor<float> const> experts;
  std::span<fssdp::expert_tensor<float> const> dense;
};

/// Where an exchange of experts and one of dense parameters begin.
struct exchange_place {
  fssdp::communicator_ref inside;   ///< the ranks of this group
  fssdp::communicator_ref between;  ///< the counterparts of this rank
  expert_layouts layouts;
  fssdp::rank_id rank;
  std::vector<fssdp::unit_shape> expert_shapes;    ///< of the four tensors of an expert, or a slice
  fssdp::layer_stack<fssdp::table_layout> chunks;  ///< of the dense parameters: one for each rank
  std::vector<fssdp::unit_shape> chunk_shape;
  std::function<void()> settled;  ///< is called when nothing is under way
};

/// Something that is kept of parameters, to be saved and moved with them.
struct kept_part {
  std::string_view name;
  fssdp::expert_buffer<float>* experts;  ///< four tensors for each part of it
  fssdp::expert_buffer<float>* dense;    ///< one
  std::size_t first;                     ///< which of these parts it is
  bool is_factor = false;                ///< its elements are not those of the parameters
};

/// Experts and dense parameters of a rank, exchanged with its counterparts.
class exchange_way {
 public:
  exchange_way() = default;
  exchange_way(exchange_way const&) = delete;
  exchange_way& operator=(exchange_way const&) = delete;
  virtual ~exchange_way() = default;

  /// All groups have equal parameters now.
  virtual void begin(owned_tensors const& /*weights*/) {}
  /// Gradients are with their owners.
  /// @param loads of the experts of all layers in this group; empty: none is left out
  virtual void average(owned_tensors const& /*gradients*/, double /*rate*/,
                       std::span<fssdp::expert_loads const> /*loads*/) {}
  /// The optimizer has done a step: so many have been done now.
  virtual void end_step(owned_tensors const& /*weights*/, int /*steps*/, double /*rate*/) {}
  /// Nothing is to be under way: before a checkpoint, and when owners change.
  virtual void drain(owned_tensors const& /*weights*/) {}
  /// The training is over: all groups get what they have not yet got of each other.
  virtual void finish(owned_tensors const& weights) { drain(weights); }
  [[nodiscard]] virtual std::vector<kept_part> kept() = 0;
  /// Where it is: part of a checkpoint, the same on all ranks of a group, which all call it.
  [[nodiscard]] virtual std::vector<double> position() = 0;
  virtual void resume(std::span<double const> position) = 0;
  /// Owners have changed, and what is kept has been moved.
  virtual void reshard(expert_layouts const& next) = 0;
};

}  // namespace moe_gpt
