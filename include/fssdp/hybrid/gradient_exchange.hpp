// SPDX-License-Identifier: Apache-2.0
/// Averages the gradients of owners over groups, every step.
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
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/payload_exchange.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"

namespace fssdp {

/// What a group keeps of a gradient that it has not sent.
enum class gradient_memory {
  none,      ///< nothing
  residual,  ///< what was left out is added to the next gradient (error feedback)
  momentum   ///< m = decay m + rate gradient; m is sent, and what has been sent leaves it (DeMo)
};

struct gradient_exchange_options {
  any_compressor compressor = {};
  gradient_memory memory = gradient_memory::residual;  ///< unused by compressors that need none
  double decay = 0.999;                                ///< of the momentum
  bool sign = false;                                   ///< the sign of the average, in its place
  std::uint64_t seed = 0;                              ///< of all draws
  /// Of the arena that is kept, where owners may change: as many as a rank may own.
  std::size_t slots = 0;
};

/// DeMo and FlexDeMo: momentum, its largest coefficients, the sign. The optimizer behind it is
/// plain SGD with weight decay. (arXiv 2411.19870, 2502.06728)
[[nodiscard]] inline gradient_exchange_options demo(any_compressor compressor) {
  return {.compressor = std::move(compressor), .memory = gradient_memory::momentum, .sign = true};
}

/// One rank's part: the gradients of what it owns, floats in memory of the host, averaged with
/// those of its counterparts, which own the same. Every tensor of every chunk is a unit, compressed
/// by itself. After sparse_reduce_scatter, before the optimizer:
///
///     auto between = gradient_exchange{counterparts, layouts, rank_in_group, shapes, options};
///     for each layer:   between.average(layer, gradients)
///
/// What it remembers lies in a buffer of the shape of an arena, so that it moves with the owners
/// (`kept` is for `reshard` and checkpoints), and no draw depends on who owns what.
class gradient_exchange {
 public:
  using layouts_type = layer_stack<table_layout>;

  /// @param between the counterparts of this rank: ranks are groups. It outlives this
  /// @param rank in the group, as in the layouts
  /// @param shapes of each tensor of a chunk
  /// @throws argument_error if a shape cannot be, or a compressor refuses it
  template <communicator Comm>
  gradient_exchange(Comm& between, layouts_type layouts, rank_id rank,
                    std::vector<unit_shape> shapes, gradient_exchange_options options = {})
      : between_{communicator_ref{between}},
        layouts_{std::move(layouts)},
        rank_{checked(rank, layouts_)},
        shapes_{std::move(shapes)},
        options_{std::move(options)},
        memory_{std::max(layouts_.slots(rank_), options_.slots), memory_sizes()} {
    detail::require(between_.in_host_memory(),
                    "gradient_exchange: a communicator between devices; expected one of host "
                    "memory, where gradients are");
    scratch_.resize(largest([&](unit_shape s) { return options_.compressor.scratch_elements(s); }));
    input_.resize(largest([](unit_shape s) { return s.elements(); }));
    method_ = method_hash();
  }

  /// Replaces the gradients of a layer by their average over all groups; in all groups by the same
  /// bits.
  /// @param gradients [owned, elements] per tensor: the shard of the layer
  /// @param rate the learning rate, where it belongs to the momentum
  /// @param loads tokens of each expert of the layer, summed over all groups; an expert without any
  ///        is left out: its gradients become 0, what is remembered stays. Without loads all take
  ///        part
  /// @pre all counterparts call with the same layer, rate and loads
  /// @cost the payloads of the compressor; no allocation once every layer has been averaged
  /// @throws argument_error before anything is sent; ranks_disagree if groups differ in layouts,
  ///         shapes, options, step, rate or loads, before any gradient changes; transport errors.
  ///         What is remembered cannot be used after either of the last two
  template <tensor_memory Gradients>
  void average(layer_id layer, Gradients&& gradients, double rate = 1,
               std::span<std::uint64_t const> loads = {}) {
    gradients_.clear();
    for (auto const& tensor : tensors_of(gradients)) gradients_.push_back(tensor);
    run(layer, gradients_, rate, loads);
  }

  /// @throws argument_error if there is no such layer
  void require_layer(layer_id layer) const {
    detail::require(layer.value() >= 0 && layer.value() < layouts_.layers(),
                    "gradient_exchange: layer ", layer, "; expected 0 to ", layouts_.layers() - 1);
  }
  /// @throws argument_error unless these are the tensors of the shard of a layer
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

  /// What is remembered, slot by slot as in the arenas: to be moved with them, and saved.
  [[nodiscard]] expert_buffer<float>& kept() { return memory_; }
  /// Owners have changed, and what is kept has been moved.
  void reshard(layouts_type layouts) { layouts_ = std::move(layouts); }
  /// How many averages of all layers there have been: part of a checkpoint.
  [[nodiscard]] std::uint64_t step() const { return step_; }
  void resume(std::uint64_t step) { step_ = step; }
  /// The next step begins: other draws, other elements. After the last layer.
  void advance() { ++step_; }
  /// The bytes that this rank sends to other groups for a layer of which no expert is idle.
  [[nodiscard]] std::size_t bytes_sent(layer_id layer) const {
    auto const groups = static_cast<std::size_t>(between_.size());
    auto bytes = std::size_t{0};
    for (int round = 0; round < options_.compressor.rounds(); ++round)
      for (auto const shape : shapes_)
        bytes += options_.compressor.payload_bytes(shape, round) * owned(layer).size();
    return options_.compressor.combines() == combination::gather
               ? (groups - 1) * bytes
               : 2 * bytes * (groups - 1) / groups;
  }

 private:
  /// A tensor of a chunk.
  struct unit {
    chunk_id chunk;
    std::size_t tensor;
    std::span<float> gradient;
    std::span<float> kept;   // what has not been sent; empty if nothing is remembered
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
           (options_.memory == gradient_memory::residual &&
            options_.compressor.needs_residual(shape));
  }
  /// Of each tensor what has not been sent, then the state of the compressor.
  [[nodiscard]] std::vector<std::size_t> memory_sizes() const {
    auto sizes = std::vector<std::size_t>{};
    for (auto const shape : shapes_) sizes.push_back(remembers(shape) ? shape.elements() : 0);
    for (auto const shape : shapes_) sizes.push_back(options_.compressor.state_elements(shape));
    return sizes;
  }
  template <class SizeOf>
  [[nodiscard]] std::size_t largest(SizeOf size_of) const {
    auto most = std::size_t{0};
    for (auto const shape : shapes_) most = std::max(most, size_of(shape));
    return most;
  }
  [[nodiscard]] std::uint64_t method_hash() const {
    auto hash = detail::hasher{};
    for (auto const letter : options_.compressor.description())
      hash.mix(static_cast<unsigned char>(letter));
    hash.mix(static_cast<int>(options_.memory), options_.sign ? 1 : 0);
    hash.mix(std::bit_cast<std::uint64_t>(options_.decay));
    hash.mix(options_.seed);
    for (auto const shape : shapes_) {
      hash.mix(shape.rows);
      hash.mix(shape.columns);
    }
    return hash.value();
  }

  /// The payloads of all units in one round, one behind the other.
  struct round_memory {
    std::vector<std::size_t> begin;  // [units + 1]
    std::vector<std::byte> mine;
    std::vector<std::byte> all;
  };

  void run(layer_id layer, std::span<expert_tensor<float> const> gradients, double rate,
           std::span<std::uint64_t const> loads) {
    require_layer(layer);
    require_shapes(layer, gradients);
    auto const experts = static_cast<std::size_t>(layouts_.experts_per_layer());
    detail::require(loads.empty() || loads.size() == experts, "gradient_exchange: loads of ",
                    loads.size(), " experts; expected ", experts);
    list_units(layer, gradients, loads);
    for (auto const& u : units_) accumulate(u, rate);
    auto label = label_of(layer, rate, loads);
    rounds_.resize(static_cast<std::size_t>(options_.compressor.rounds()));
    for (std::size_t round = 0; round < rounds_.size(); ++round) {
      label.round = static_cast<int>(round);
      exchange(layer, round, label);
    }
    for (std::size_t n = 0; n < units_.size(); ++n) take_in(layer, n);
    for (auto const& u : idle_) std::ranges::fill(u.gradient, 0.0F);
  }
  void list_units(layer_id layer, std::span<expert_tensor<float> const> gradients,
                  std::span<std::uint64_t const> loads) {
    units_.clear();
    idle_.clear();
    auto const first = static_cast<std::size_t>(layouts_.first_slot(layer, rank_));
    for (std::size_t slot = 0; auto const chunk : owned(layer)) {
      auto const is_idle = !loads.empty() && loads[chunk.expert.index()] == 0;
      for (std::size_t k = 0; k < shapes_.size(); ++k) {
        auto const kept = memory_.tensors()[k][first + slot];
        auto const state = memory_.tensors()[shapes_.size() + k][first + slot];
        (is_idle ? idle_ : units_).push_back({chunk, k, gradients[k][slot], kept, state});
      }
      ++slot;
    }
  }
  /// What is to be sent: where something is remembered, it is added up there.
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
  void exchange(layer_id layer, std::size_t round, batch_label const& label) {
    auto& now = rounds_[round];
    auto const& compressor = options_.compressor;
    now.begin.assign(1, 0);
    for (auto const& u : units_)
      now.begin.push_back(now.begin.back() +
                          compressor.payload_bytes(shapes_[u.tensor], static_cast<int>(round)));
    auto const bytes = now.begin.back();
    grow(now.mine, bytes);
    auto const combined_bytes =
        detail::payload_exchange::combined_bytes(compressor.combines(), bytes, between_.size());
    grow(now.all, combined_bytes);
    for (std::size_t n = 0; n < units_.size(); ++n)
      compressor.encode(described(layer, n), input_of(units_[n]), combined(n, round),
                        std::span{now.mine}.subspan(now.begin[n], now.begin[n + 1] - now.begin[n]));
    exchange_.run(between_, compressor.combines(), std::span{now.mine}.first(bytes),
                  std::span{now.all}.first(combined_bytes), label);
  }
  /// The average becomes the gradient; what this group has sent leaves its memory. Infinity and NaN
  /// stay there until they are sent, and leave nothing.
  void take_in(layer_id layer, std::size_t n) {
    auto const& u = units_[n];
    auto const of = described(layer, n);
    auto const rounds = combined(n, rounds_.size());
    if (!u.kept.empty()) {
      auto const sent = std::span{input_}.first(u.kept.size());
      options_.compressor.own(of, rounds, sent);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        auto const is_finite = sent[i] - sent[i] == 0;
        u.kept[i] = is_finite ? u.kept[i] - sent[i] : 0.0F;
      }
    }
    options_.compressor.decode(of, rounds, u.gradient);
    if (!options_.sign) return;
    for (auto& value : u.gradient)
      if (value == value) value = value > 0 ? 1.0F : value < 0 ? -1.0F : 0.0F;
  }
  [[nodiscard]] compression_unit described(layer_id layer, std::size_t n) {
    auto const& u = units_[n];
    auto const key = random_key(options_.seed, step_, layer.value(), u.chunk.expert.value(),
                                u.chunk.slice.value(), u.tensor);
    return {.shape = shapes_[u.tensor],
            .shared_key = key,
            .own_key = random_key(key, between_.rank().value()),
            .step = step_,
            .state = u.state,
            .scratch = scratch_};
  }
  /// What has come together for a unit in the first rounds.
  [[nodiscard]] std::span<combined_payload const> combined(std::size_t n, std::size_t rounds) {
    combined_.clear();
    for (auto const& round : std::span{rounds_}.first(rounds)) {
      auto const first = round.begin[n];
      auto const bytes = round.begin[n + 1] - first;
      auto const all = std::span<std::byte const>{round.all}.subspan(first);
      combined_.push_back({.mine = std::span<std::byte const>{round.mine}.subspan(first, bytes),
                           .all = all,
                           .stride = round.begin.back(),
                           .groups = between_.size()});
    }
    return combined_;
  }
  [[nodiscard]] batch_label label_of(layer_id layer, double rate,
                                     std::span<std::uint64_t const> loads) const {
    auto hash = detail::hasher{};
    hash.mix(method_);
    hash.mix(layer.value(), rank_.value());
    hash.mix(step_);
    hash.mix(std::bit_cast<std::uint64_t>(rate));
    for (auto const& u : units_) hash.mix(u.chunk.expert.value(), u.chunk.slice.value());
    for (auto const load : loads) hash.mix(load);
    return {.plan = hash.value()};
  }
  static void grow(std::vector<std::byte>& bytes, std::size_t size) {
    if (bytes.size() < size) bytes.resize(size);
  }

  communicator_ref between_;
  layouts_type layouts_;
  rank_id rank_;
  std::vector<unit_shape> shapes_;
  gradient_exchange_options options_;
  expert_buffer<float> memory_;
  std::uint64_t method_ = 0;
  std::uint64_t step_ = 0;
  detail::payload_exchange exchange_;
  std::vector<expert_tensor<float>> gradients_;  // that are averaged
  std::vector<unit> units_;                      // of the layer that is averaged
  std::vector<unit> idle_;
  std::vector<round_memory> rounds_;
  std::vector<combined_payload> combined_;
  std::vector<float> scratch_;  // of the compressor
  std::vector<float> input_;    // of one unit
};

}  // namespace fssdp
