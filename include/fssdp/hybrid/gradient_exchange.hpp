// SPDX-License-Identifier: Apache-2.0
/// Averages the gradients of owners over groups, in every step.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/compressed_rounds.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/rate_choice.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/stream/host_stream.hpp"

namespace fssdp {

/// What a group keeps of a gradient that it has not sent.
enum class gradient_memory {
  none,      ///< nothing
  residual,  ///< what was not sent is added to the next gradient (error feedback)
  momentum   ///< m = decay m + rate gradient; m is sent, and what was sent is subtracted (DeMo)
};

/// Options of gradient_exchange.
struct gradient_exchange_options {
  any_compressor compressor = {};
  /// Other compressors that `choose_compressors` may choose instead, for each tensor.
  std::vector<any_compressor> alternatives = {};
  gradient_memory memory = gradient_memory::residual;  ///< unused by compressors without residual
  double decay = 0.999;                                ///< of the momentum
  bool sign = false;                                   ///< use the sign of the average instead
  /// The number of first averages that are not compressed. PowerSGD with Adam needs a tenth of the
  /// training
  /// (start_powerSGD_iter of PyTorch's hook).
  std::uint64_t start = 0;
  std::uint64_t seed = 0;    ///< of all random numbers
  std::uint64_t agreed = 0;  ///< a hash of anything else that groups must agree on
  /// The number of slots of kept(), if owners may change: the most that a rank may own.
  std::size_t slots = 0;
  /// If set, averages run asynchronously on this stream, which outlives the exchange.
  host_stream* stream = nullptr;
};

/// Options for DeMo and FlexDeMo: momentum, its largest coefficients, the sign. The optimizer is
/// then plain SGD with weight decay. (arXiv 2411.19870, 2502.06728)
[[nodiscard]] inline gradient_exchange_options demo(any_compressor compressor) {
  return {.compressor = std::move(compressor), .memory = gradient_memory::momentum, .sign = true};
}

/// Averages the gradients of what a rank owns, floats in host memory, with those of its
/// counterparts, which own the same. Every tensor of every chunk is a unit, which is compressed by
/// itself. To be called after sparse_reduce_scatter, before the optimizer:
///
///     auto between = gradient_exchange{counterparts, layouts, rank_in_group, shapes, options};
///     for each layer:   between.average(layer, gradients)
///     between.synchronize()                               (where there is a stream)
///     between.advance()
///
/// Its state is in a buffer with the shape of an arena, so it moves with the owners (`kept` is for
/// `reshard` and checkpoints), and random numbers do not depend on who owns what.
class gradient_exchange {
 public:
  using layouts_type = layer_stack<table_layout>;

  /// @param between the counterparts of this rank: ranks are groups. Outlives this, and is not used
  ///        otherwise while averages are in progress
  /// @param rank in the group, as in the layouts
  /// @param shapes of each tensor of a chunk
  /// @throws argument_error if a shape is invalid, or a compressor does not accept it
  template <communicator Comm>
  gradient_exchange(Comm& between, layouts_type layouts, rank_id rank,
                    std::vector<unit_shape> shapes, gradient_exchange_options options = {})
      : between_{communicator_ref{between}},
        layouts_{std::move(layouts)},
        rank_{checked(rank, layouts_)},
        shapes_{std::move(shapes)},
        options_{std::move(options)},
        compressors_{options_.compressor, options_.alternatives, layouts_.layers(), shapes_},
        memory_{std::max(layouts_.slots(rank_), options_.slots), memory_sizes()},
        calls_(static_cast<std::size_t>(layouts_.layers())) {
    detail::require(between_.in_host_memory(),
                    "gradient_exchange: a communicator between devices; expected one of host "
                    "memory, where gradients are");
    scratch_.resize(compressors_.scratch_elements());
    for (auto const shape : shapes_) input_.resize(std::max(input_.size(), shape.elements()));
    method_ = method_hash();
  }
  gradient_exchange(gradient_exchange const&) = delete;
  gradient_exchange& operator=(gradient_exchange const&) = delete;
  /// Waits for averages in progress.
  ~gradient_exchange() {
    try {
      synchronize();
    } catch (...) {  // averages that have failed are over, too
    }
  }

  /// Replaces the gradients of a layer by their average over all groups, with equal bits in all
  /// groups. With a stream it returns at once: gradients must not be accessed until `synchronize`,
  /// which also throws errors.
  /// @param gradients [owned, elements] per tensor: the shard of the layer
  /// @param rate the learning rate, for gradient_memory::momentum
  /// @param loads tokens of each expert of the layer, summed over all groups. Experts without
  ///        tokens are skipped: their gradients become 0, and their memory does not change. If
  ///        empty, no expert is skipped
  /// @pre all counterparts call with the same layer, rate and loads
  /// @cost the payloads of the compressor; no allocation after every layer has been averaged once
  /// @throws argument_error before anything is sent; ranks_disagree if groups differ in layouts,
  ///         shapes, options, step, rate or loads, before any gradient changes; transport errors.
  ///         After either of the last two, the memory is invalid
  template <tensor_memory Gradients>
  void average(layer_id layer, Gradients&& gradients, double rate = 1,
               std::span<std::uint64_t const> loads = {}) {
    require_layer(layer);
    auto const& views = tensors_of(gradients);
    require_shapes(layer, views);
    auto const experts = static_cast<std::size_t>(layouts_.experts_per_layer());
    detail::require(loads.empty() || loads.size() == experts, "gradient_exchange: average with ",
                    loads.size(), " loads; expected ", experts, ", one per expert, or none");
    auto& wanted = calls_[layer.index()];
    wanted.gradients.assign(views.begin(), views.end());
    wanted.loads.assign(loads.begin(), loads.end());
    wanted.rate = rate;
    wanted.step = step_;
    if (options_.stream == nullptr) return run(layer, wanted);
    options_.stream->enqueue([this, layer, &wanted] { run(layer, wanted); });
  }
  /// Waits for all averages.
  /// @throws the error of any of them
  void synchronize() {
    if (options_.stream != nullptr) options_.stream->synchronize();
  }
  /// Begins the next step, with other random numbers; to be called after the last layer.
  void advance() { ++step_; }

  /// Sets whether averages measure the error of every compressor from now on. Costs one more
  /// `encode` for each compressor.
  void measure(bool on = true) {
    synchronize();
    compressors_.measure(on);
  }
  /// Chooses a compressor for each tensor of each layer, by the measured errors: the fewest bytes
  /// for an error that is not above that of the default one. A newly chosen compressor starts
  /// without state; momentum and residual are kept. Similar to L-GreCo. (arXiv 2210.17357)
  /// @param inside the ranks of this group
  /// @pre all ranks of all groups call it, between two steps
  /// @cost two exchanges of 8 bytes for each compressor and tensor of a layer, and `choose_rates`
  /// @throws argument_error if nothing was measured; transport errors
  template <communicator Comm>
  void choose_compressors(Comm& inside, rate_options const& options = {}) {
    synchronize();
    compressors_.choose(communicator_ref{inside}, between_, layouts_, options,
                        [&](layer_id layer, std::size_t k) { forget_state(layer, k); });
  }
  /// The compressor of a tensor of a layer: 0, or 1 + its index among the alternatives.
  [[nodiscard]] std::size_t compressor_of(layer_id layer, std::size_t tensor) const {
    return compressors_.index_of(layer, tensor);
  }
  /// Restores the compressor of a tensor from a checkpoint; together with `resume` and kept().
  /// @pre no average is in progress, and all ranks of all groups make the same call
  /// @throws argument_error if layer, tensor or compressor do not exist
  void take_compressor(layer_id layer, std::size_t tensor, std::size_t index) {
    require_layer(layer);
    compressors_.take(layer, tensor, index);
  }

  /// @throws argument_error if the layer does not exist
  void require_layer(layer_id layer) const {
    detail::require(layer.value() >= 0 && layer.value() < layouts_.layers(),
                    "gradient_exchange: layer ", layer, "; expected 0 to ", layouts_.layers() - 1);
  }
  /// @throws argument_error unless the tensors are those of the shard of a layer
  template <class Tensors>
  void require_shapes(layer_id layer, Tensors const& tensors) const {
    detail::require(tensors.size() == shapes_.size(), "gradient_exchange: ", tensors.size(),
                    " tensors; expected ", shapes_.size());
    for (std::size_t k = 0; k < shapes_.size(); ++k)
      detail::require(
          tensors[k].slots == owned(layer).size() && tensors[k].elements == shapes_[k].elements(),
          "gradient_exchange: tensor ", k, " is [", tensors[k].slots, ", ", tensors[k].elements,
          "]; expected [", owned(layer).size(), ", ", shapes_[k].elements(), "]");
  }

  /// The memory, slot by slot as in the arenas: to be moved with them, and saved.
  /// @pre no average is in progress
  [[nodiscard]] expert_buffer<float>& kept() { return memory_; }
  /// To be called when owners have changed, after kept() was moved.
  void reshard(layouts_type layouts) { layouts_ = std::move(layouts); }
  /// The number of averages of all layers so far: part of a checkpoint.
  [[nodiscard]] std::uint64_t step() const { return step_; }
  void resume(std::uint64_t step) { step_ = step; }
  /// The bytes that this rank sends to other groups for a layer in which all experts have tokens.
  /// An upper limit if sizes depend on the elements.
  [[nodiscard]] std::size_t bytes_sent(layer_id layer) const {
    auto bytes = detail::compressed_rounds::byte_count{};
    for (std::size_t k = 0; k < shapes_.size(); ++k)
      bytes.add(compressor_at(layer, k, step_), shapes_[k], owned(layer).size());
    return bytes.sent_by(between_.rank(), between_.size());
  }

 private:
  /// The arguments of `average`.
  struct call {
    std::vector<expert_tensor<float>> gradients;
    std::vector<std::uint64_t> loads;
    double rate = 1;
    std::uint64_t step = 0;
  };
  /// A tensor of a chunk.
  struct unit {
    chunk_id chunk;
    std::size_t tensor;
    std::span<float> gradient;
    std::span<float> kept;   // what was not sent; empty without memory
    std::span<float> state;  // of the compressor
  };

  [[nodiscard]] static rank_id checked(rank_id rank, layouts_type const& layouts) {
    detail::require(rank.value() >= 0 && rank.value() < layouts.ranks(), "gradient_exchange: rank ",
                    rank, "; expected 0 to ", layouts.ranks() - 1);
    return rank;
  }
  [[nodiscard]] std::span<chunk_id const> owned(layer_id layer) const {
    return layouts_.layer(layer).owned(rank_);
  }
  [[nodiscard]] bool remembers(unit_shape shape) const {
    return options_.memory == gradient_memory::momentum ||
           (options_.memory == gradient_memory::residual && compressors_.needs_residual(shape));
  }
  /// For each tensor the size of what was not sent, then of the compressor's state.
  [[nodiscard]] std::vector<std::size_t> memory_sizes() const {
    auto sizes = std::vector<std::size_t>{};
    for (auto const shape : shapes_) sizes.push_back(remembers(shape) ? shape.elements() : 0);
    for (auto const shape : shapes_) sizes.push_back(compressors_.state_elements(shape));
    return sizes;
  }
  [[nodiscard]] std::uint64_t method_hash() const {
    auto hash = detail::hasher{};
    hash.mix(compressors_.hash());
    hash.mix(static_cast<int>(options_.memory), options_.sign ? 1 : 0);
    hash.mix(std::bit_cast<std::uint64_t>(options_.decay));
    hash.mix(options_.seed);
    hash.mix(options_.start);
    hash.mix(options_.agreed);
    for (auto const shape : shapes_) {
      hash.mix(shape.rows);
      hash.mix(shape.columns);
    }
    return hash.value();
  }

  void run(layer_id layer, call const& of) {
    list_units(layer, of);
    rounds_.clear();
    for (auto const& u : units_) {
      accumulate(u, of.rate);
      auto const about = described(layer, u, of.step);
      compressors_.measure_unit(layer, u.tensor, about, input_of(u));
      rounds_.add({&compressor_at(layer, u.tensor, of.step), about, input_of(u)});
    }
    rounds_.run(between_, label_of(layer, of));
    for (std::size_t n = 0; n < units_.size(); ++n) take_in(layer, n, of.step);
    for (auto const& u : idle_) std::ranges::fill(u.gradient, 0.0F);
  }
  void list_units(layer_id layer, call const& of) {
    units_.clear();
    idle_.clear();
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    for (std::size_t slot = 0; auto const chunk : owned(layer)) {
      auto const is_idle = !of.loads.empty() && of.loads[chunk.expert.index()] == 0;
      for (std::size_t k = 0; k < shapes_.size(); ++k)
        (is_idle ? idle_ : units_)
            .push_back({chunk, k, of.gradients[k][slot], memory_.tensors()[k][first + slot],
                        state_at(layer, k, first + slot, of.step)});
      ++slot;
    }
  }
  /// The compressor of a tensor in the average of a step.
  [[nodiscard]] any_compressor const& compressor_at(layer_id layer, std::size_t k,
                                                    std::uint64_t step) const {
    return step < options_.start ? in_full_ : compressors_.of(layer, k);
  }
  [[nodiscard]] std::span<float> state_at(layer_id layer, std::size_t k, std::size_t slot,
                                          std::uint64_t step) {
    auto const all = memory_.tensors()[shapes_.size() + k][slot];
    return all.first(compressor_at(layer, k, step).state_elements(shapes_[k]));
  }
  void forget_state(layer_id layer, std::size_t k) {
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    for (std::size_t slot = 0; slot < owned(layer).size(); ++slot)
      std::ranges::fill(memory_.tensors()[shapes_.size() + k][first + slot], 0.0F);
  }
  /// Adds the gradient to the memory, if there is one.
  void accumulate(unit const& u, double rate) const {
    if (options_.memory == gradient_memory::momentum) {
      auto const decay = static_cast<float>(options_.decay);
      auto const scale = static_cast<float>(rate);
      for (std::size_t i = 0; i < u.kept.size(); ++i)
        u.kept[i] = decay * u.kept[i] + scale * u.gradient[i];
    } else {
      for (std::size_t i = 0; i < u.kept.size(); ++i) u.kept[i] += u.gradient[i];
    }
  }
  [[nodiscard]] static std::span<float const> input_of(unit const& u) {
    return u.kept.empty() ? u.gradient : u.kept;
  }
  /// The average becomes the gradient; what this group has sent is subtracted from its memory.
  /// Infinity and NaN stay there until they are sent, and are then set to 0.
  void take_in(layer_id layer, std::size_t n, std::uint64_t step) {
    auto const& u = units_[n];
    auto const& compressor = compressor_at(layer, u.tensor, step);
    auto const about = described(layer, u, step);
    auto const rounds = rounds_.rounds_of(n);
    if (!u.kept.empty()) {
      auto const sent = std::span{input_}.first(u.kept.size());
      compressor.own(about, rounds, sent);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        auto const is_finite = sent[i] - sent[i] == 0;
        u.kept[i] = is_finite ? u.kept[i] - sent[i] : 0.0F;
      }
    }
    compressor.decode(about, rounds, u.gradient);
    if (!options_.sign) return;
    for (auto& value : u.gradient)
      if (value == value) value = value > 0 ? 1.0F : value < 0 ? -1.0F : 0.0F;
  }
  [[nodiscard]] compression_unit described(layer_id layer, unit const& u, std::uint64_t step) {
    auto const key = random_key(options_.seed, step, layer.value(), u.chunk.expert.value(),
                                u.chunk.slice.value(), u.tensor);
    return {.shape = shapes_[u.tensor],
            .shared_key = key,
            .own_key = random_key(key, between_.rank().value()),
            .step = step,
            .state = u.state,
            .scratch = scratch_};
  }
  [[nodiscard]] batch_label label_of(layer_id layer, call const& of) const {
    auto hash = detail::hasher{};
    hash.mix(method_);
    hash.mix(layer.value(), rank_.value());
    hash.mix(of.step);
    hash.mix(std::bit_cast<std::uint64_t>(of.rate));
    for (auto const& u : units_) {
      hash.mix(u.chunk.expert.value(), u.chunk.slice.value());
      hash.mix(compressors_.index_of(layer, u.tensor));
    }
    for (auto const load : of.loads) hash.mix(load);
    return {.plan = hash.value()};
  }

  communicator_ref between_;
  layouts_type layouts_;
  rank_id rank_;
  std::vector<unit_shape> shapes_;
  gradient_exchange_options options_;
  detail::rate_choice compressors_;
  any_compressor in_full_;  // for the first averages (start)
  expert_buffer<float> memory_;
  std::uint64_t method_ = 0;
  std::uint64_t step_ = 0;
  std::vector<call> calls_;  // [layers]
  detail::compressed_rounds rounds_;
  std::vector<unit> units_;  // of the current layer
  std::vector<unit> idle_;
  std::vector<float> scratch_;  // of the compressor
  std::vector<float> input_;    // of one unit
};

}  // namespace fssdp
