// SPDX-License-Identifier: Apache-2.0
/// The compressor of each tensor of each layer, and the measured errors of the alternatives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/compressed_rounds.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/rate_solver.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"

namespace fssdp::detail {

/// A class is one tensor of all experts of a layer: its units have the same compressor.
class rate_choice {
 public:
  rate_choice(any_compressor usual, std::vector<any_compressor> const& alternatives, int layers,
              std::vector<unit_shape> shapes)
      : candidates_{std::move(usual)},
        shapes_{std::move(shapes)},
        choice_(static_cast<std::size_t>(layers) * shapes_.size()) {
    candidates_.insert(candidates_.end(), alternatives.begin(), alternatives.end());
    for (auto const shape : shapes_)
      for (auto const& compressor : candidates_)
        for (int round = 0; round < compressor.rounds(); ++round)
          (void)compressor.payload_bytes(shape, round);
  }

  [[nodiscard]] any_compressor const& of(layer_id layer, std::size_t tensor) const {
    return candidates_[index_of(layer, tensor)];
  }
  [[nodiscard]] std::size_t index_of(layer_id layer, std::size_t tensor) const {
    return choice_[class_of(layer, tensor)];
  }
  /// @throws argument_error if the tensor or the compressor does not exist
  void take(layer_id layer, std::size_t tensor, std::size_t index) {
    require(tensor < shapes_.size() && index < candidates_.size(), "take_compressor: compressor ",
            index, " for tensor ", tensor, "; expected one of ", candidates_.size(), ", and of ",
            shapes_.size());
    choice_[class_of(layer, tensor)] = index;
  }
  /// The largest state of any compressor.
  [[nodiscard]] std::size_t state_elements(unit_shape shape) const {
    auto most = std::size_t{0};
    for (auto const& of : candidates_) most = std::max(most, of.state_elements(shape));
    return most;
  }
  [[nodiscard]] std::size_t scratch_elements() const {
    auto most = std::size_t{0};
    for (auto const shape : shapes_)
      for (auto const& of : candidates_) most = std::max(most, of.scratch_elements(shape));
    return most;
  }
  [[nodiscard]] bool needs_residual(unit_shape shape) const {
    return std::ranges::any_of(candidates_,
                               [&](auto const& of) { return of.needs_residual(shape); });
  }
  [[nodiscard]] std::uint64_t hash() const {
    auto hash = hasher{};
    for (auto const& of : candidates_) {
      for (auto const letter : of.description()) hash.mix(static_cast<unsigned char>(letter));
      hash.mix(0);
    }
    return hash.value();
  }

  void measure(bool on) {
    squares_.clear();
    if (on) squares_.assign(choice_.size() * candidates_.size(), 0);
  }
  /// Adds the errors of all compressors for a unit, starting without state; does nothing if not
  /// measuring.
  void measure_unit(layer_id layer, std::size_t tensor, compression_unit about,
                    std::span<float const> input) {
    if (squares_.empty()) return;
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      state_.assign(candidates_[c].state_elements(about.shape), 0);
      about.state = state_;
      squares_[class_of(layer, tensor) * candidates_.size() + c] +=
          error_of(candidates_[c], about, input);
    }
  }
  /// Calls changed(layer, tensor) for each new choice, and stops measuring.
  template <class Changed>
  void choose(communicator_ref inside, communicator_ref between,
              layer_stack<table_layout> const& layouts, rate_options const& options,
              Changed changed) {
    require(!squares_.empty(),
            "choose_compressors: nothing has been measured; expected `measure` before the averages "
            "of a step");
    auto const all = all_reduce(between, all_reduce(inside, squares_));
    auto table = rate_table{};
    for (auto const layer : first_n<layer_id>(layouts.layers()))
      for (std::size_t k = 0; k < shapes_.size(); ++k) {
        auto& bytes = table.bytes.emplace_back();
        auto& errors = table.errors.emplace_back();
        auto const& layout = layouts.layer(layer);
        auto const units =
            static_cast<std::size_t>(layout.experts()) * static_cast<std::size_t>(layout.slices());
        for (std::size_t c = 0; c < candidates_.size(); ++c) {
          auto count = compressed_rounds::byte_count{};
          count.add(candidates_[c], shapes_[k], units);
          bytes.push_back(count.sent_by(rank_id{0}, between.size()));
          auto const sum = all[class_of(layer, k) * candidates_.size() + c];
          errors.push_back(std::sqrt(sum / between.size()));
        }
      }
    auto const chosen = choose_rates(table, options);
    for (auto const layer : first_n<layer_id>(layouts.layers()))
      for (std::size_t k = 0; k < shapes_.size(); ++k) {
        auto& now = choice_[class_of(layer, k)];
        auto const next = chosen[class_of(layer, k)];
        if (std::exchange(now, next) != next) changed(layer, k);
      }
    squares_.clear();
  }

 private:
  [[nodiscard]] std::size_t class_of(layer_id layer, std::size_t tensor) const {
    return layer.index() * shapes_.size() + tensor;
  }
  /// |input - own|^2, as if this were the only group.
  [[nodiscard]] double error_of(any_compressor const& compressor, compression_unit const& about,
                                std::span<float const> input) {
    auto payloads =
        std::vector<std::vector<std::byte>>(static_cast<std::size_t>(compressor.rounds()));
    auto rounds = std::vector<combined_payload>{};
    for (auto& payload : payloads) {
      payload.resize(compressor.payload_bytes_after(about, rounds));
      compressor.encode(about, input, rounds, payload);
      rounds.push_back({.mine = payload, .all = payload, .stride = payload.size(), .groups = 1});
    }
    auto own = std::vector<float>(input.size());
    compressor.own(about, rounds, own);
    auto sum = 0.0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      auto const left = double{input[i]} - double{own[i]};
      sum += left * left;
    }
    return sum;
  }

  std::vector<any_compressor> candidates_;  // the first is the default
  std::vector<unit_shape> shapes_;
  std::vector<std::size_t> choice_;  // [layers, tensors]
  std::vector<double> squares_;      // [layers, tensors, candidates]; empty if not measuring
  std::vector<float> state_;
};

}  // namespace fssdp::detail
