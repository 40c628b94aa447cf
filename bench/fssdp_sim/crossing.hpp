// SPDX-License-Identifier: Apache-2.0
/// The bytes that groups exchange, by the library's own compressors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "between/exchange.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/compressed_rounds.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "model.hpp"

namespace sim {

/// The tensors of an expert, or of a slice of it, which are runs. Each of them is compressed by
/// itself; its elements are floats.
/// @param smaller elements are divided by it, rows and columns in proportion
[[nodiscard]] inline std::vector<fssdp::unit_shape> units_of(model_shape const& of, int slices = 1,
                                                             double smaller = 1) {
  auto const size = [&](double real) {
    return static_cast<std::size_t>(std::max(1.0, std::round(real)));
  };
  auto units = std::vector<fssdp::unit_shape>{};
  for (int n = 0; n < of.matrices; ++n) {
    auto const is_last = n + 1 == of.matrices;  // from the hidden layer back
    auto const rows = static_cast<double>(is_last ? of.d_ffn : of.d_model);
    auto const columns = static_cast<double>(is_last ? of.d_model : of.d_ffn);
    auto const elements = rows * columns / smaller;
    if (slices > 1) {
      units.push_back({1, size(elements / slices)});
    } else {
      auto const fewer = size(rows / std::sqrt(smaller));
      units.push_back({fewer, size(elements / static_cast<double>(fewer))});
    }
  }
  return units;
}

namespace detail {

/// What the second payload of a compressor has of the most that it can be, for gradients of groups
/// that have nothing in common: 1 where it does not depend on the elements.
[[nodiscard]] inline double usual_share(fssdp::any_compressor const& of, int groups) {
  if (of.rounds() < 2 || of.combines(0) != fssdp::combination::gather) return 1;
  auto const shape = fssdp::unit_shape{
      1, std::clamp<std::size_t>((std::size_t{1} << 20) / static_cast<std::size_t>(groups), 1024,
                                 16384)};
  auto state = std::vector<float>(of.state_elements(shape));
  auto scratch = std::vector<float>(of.scratch_elements(shape));
  auto const unit = fssdp::compression_unit{.shape = shape, .state = state, .scratch = scratch};
  auto const bytes = of.payload_bytes(shape, 0);
  auto payloads = std::vector<std::byte>(bytes * static_cast<std::size_t>(groups));
  auto gradient = std::vector<float>(shape.elements());
  for (auto const group : fssdp::first_n<fssdp::rank_id>(groups)) {
    auto const draws = fssdp::counter_random{fssdp::random_key(group.value())};
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = draws[i] - 0.5F;
    of.encode(unit, gradient, {}, std::span{payloads}.subspan(group.index() * bytes, bytes));
  }
  auto const first = fssdp::combined_payload{
      .mine = std::span{payloads}.first(bytes), .all = payloads, .stride = bytes, .groups = groups};
  return static_cast<double>(of.payload_bytes_after(unit, std::span{&first, 1})) /
         static_cast<double>(of.payload_bytes(shape, 1));
}

}  // namespace detail

/// One exchange of a layer, by a method.
class crossing {
 public:
  /// @param units of one chunk: an expert, or a slice of it
  /// @throws fssdp::argument_error if the method cannot compress them
  crossing(between::method const& by, std::vector<fssdp::unit_shape> units, int groups)
      : compressor_{between::exchange_of(by).compressor},
        units_{std::move(units)},
        groups_{groups},
        share_{detail::usual_share(compressor_, groups)} {}

  /// What a rank sends to its counterparts, as much as it receives: of the group for which that is
  /// most. Where it depends on the elements (tagc), of gradients that have nothing in common.
  /// @param chunks that it owns of the layer
  [[nodiscard]] std::size_t bytes(int chunks) const {
    auto count = fssdp::detail::compressed_rounds::byte_count{};
    for (auto const unit : units_)
      for (int round = 0; round < compressor_.rounds(); ++round) {
        auto const one = static_cast<double>(compressor_.payload_bytes(unit, round));
        auto const all = one * (round == 1 ? share_ : 1) * chunks;
        count.add(round, compressor_.combines(round), static_cast<std::size_t>(all));
      }
    auto most = std::size_t{0};
    for (auto const group : fssdp::first_n<fssdp::rank_id>(groups_))
      most = std::max(most, count.sent_by(group, groups_));
    return most;
  }
  /// How often counterparts wait for each other: once for payloads that are gathered, twice for
  /// those that are added.
  [[nodiscard]] int meetings() const {
    auto count = 0;
    for (int round = 0; round < compressor_.rounds(); ++round) {
      auto const sends = [&](fssdp::unit_shape unit) {
        return compressor_.payload_bytes(unit, round) > 0;
      };
      if (!std::ranges::any_of(units_, sends)) continue;
      count += compressor_.combines(round) == fssdp::combination::gather ? 1 : 2;
    }
    return count;
  }
  [[nodiscard]] int groups() const { return groups_; }

 private:
  fssdp::any_compressor compressor_;
  std::vector<fssdp::unit_shape> units_;
  int groups_;
  double share_;  // of the second payload
};

}  // namespace sim
