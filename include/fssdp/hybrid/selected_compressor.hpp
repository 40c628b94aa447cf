// SPDX-License-Identifier: Apache-2.0
/// The same elements in all groups: every n-th, or random ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/nth_magnitude.hpp"

namespace fssdp {

namespace detail {

/// Sends values at positions that all groups know, without indices. All other elements are 0.
/// @tparam Derived has count(elements) and for_each_position(unit, visit), which visits positions
///         in ascending order
template <class Derived>
class selection {
 public:
  [[nodiscard]] combination combines(int /*round*/) const { return combination::sum; }

  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int /*round*/) const {
    return self().count(shape.elements()) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const>, std::span<std::byte> payload) const {
    std::ranges::fill(payload, std::byte{0});
    auto n = std::size_t{0};
    self().for_each_position(unit, [&](std::size_t at) { put_float(payload, n++, input[at]); });
  }
  void own(compression_unit const& unit, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    put(unit, rounds[0].mine, 1, output);
  }
  void decode(compression_unit const& unit, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    put(unit, rounds[0].all, 1.0F / static_cast<float>(rounds[0].groups), output);
  }

 private:
  [[nodiscard]] Derived const& self() const { return static_cast<Derived const&>(*this); }
  void put(compression_unit const& unit, std::span<std::byte const> values, float share,
           std::span<float> output) const {
    std::ranges::fill(output, 0.0F);
    auto n = std::size_t{0};
    self().for_each_position(unit,
                             [&](std::size_t at) { output[at] = float_at(values, n++) * share; });
  }
};

}  // namespace detail

/// Every `stride`-th element, with another offset in each exchange: after `stride` exchanges each
/// element has been sent once. (DeToNATION, striding replication)
struct strided_compressor : detail::selection<strided_compressor> {
  std::size_t stride = 16;

  explicit strided_compressor(std::size_t every = 16) : stride{every} {
    detail::require(stride >= 1, "strided_compressor: stride is 0; expected 1 or more");
  }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t count(std::size_t elements) const {
    return elements / stride + (elements % stride == 0 ? 0 : 1);
  }
  [[nodiscard]] std::string description() const {
    return detail::text("strided_compressor, every ", stride);
  }
  template <class Visit>
  void for_each_position(compression_unit const& unit, Visit visit) const {
    for (auto at = static_cast<std::size_t>(unit.step % stride); at < unit.shape.elements();
         at += stride)
      visit(at);
  }
};

/// A share of the elements, rounded up, at random positions by the shared key, new ones in each
/// exchange.
/// (DeToNATION, random replication)
struct random_compressor : detail::selection<random_compressor> {
  double share = 1.0 / 16;

  explicit random_compressor(double of_all = 1.0 / 16) : share{of_all} {
    detail::require(share > 0 && share <= 1, "random_compressor: share is ", share,
                    "; expected more than 0, and at most 1");
  }
  [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const {
    return 2 * shape.elements();
  }
  [[nodiscard]] std::size_t count(std::size_t elements) const {
    return std::min(elements,
                    static_cast<std::size_t>(std::ceil(share * static_cast<double>(elements))));
  }
  [[nodiscard]] std::string description() const {
    return detail::text("random_compressor, a share of ", share);
  }
  template <class Visit>
  void for_each_position(compression_unit const& unit, Visit visit) const {
    auto const elements = unit.shape.elements();
    auto const wanted = count(elements);
    if (wanted == 0) return;
    auto const draws = unit.scratch.first(elements);
    auto const sorted = unit.scratch.subspan(elements, elements);
    auto const draw = counter_random{unit.shared_key};
    for (std::size_t i = 0; i < elements; i += draw.at_once)
      detail::put_part(draw.many(i), draws, i);
    auto const last = detail::nth_magnitude(draws, wanted - 1, sorted);
    auto of_last = wanted - static_cast<std::size_t>(
                                std::ranges::count_if(draws, [&](float d) { return d < last; }));
    for (std::size_t i = 0; i < elements; ++i) {
      if (draws[i] > last || (draws[i] == last && of_last == 0)) continue;
      if (draws[i] == last) --of_last;
      visit(i);
    }
  }
};

static_assert(compressor<strided_compressor> && compressor<random_compressor>);

}  // namespace fssdp
