// SPDX-License-Identifier: Apache-2.0
/// The concept of a compressor: what of a gradient is sent between groups, and how it is combined.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// The shape of a unit: one tensor of one chunk, which is compressed by itself. A matrix is
/// row-major.
struct unit_shape {
  std::size_t rows = 1;
  std::size_t columns = 0;
  [[nodiscard]] constexpr std::size_t elements() const { return rows * columns; }
  friend bool operator==(unit_shape const&, unit_shape const&) = default;
};

/// How the payloads of groups are combined.
enum class combination {
  gather,  ///< every group gets all payloads: each sends (groups - 1) times a payload
  sum      ///< payloads are floats, added in the order of the groups: 2 (groups - 1) / groups times
};

/// The context in which a unit is compressed.
struct compression_unit {
  unit_shape shape;
  std::uint64_t shared_key = 0;   ///< for random numbers that are equal in all groups
  std::uint64_t own_key = 0;      ///< for random numbers that differ between groups
  std::uint64_t step = 0;         ///< the number of the exchange
  std::span<float> state = {};    ///< kept by the caller between steps; zero at first
  std::span<float> scratch = {};  ///< temporary memory; contents unspecified
};

/// The payloads of one of a compressor's exchanges after they have been combined.
struct combined_payload {
  std::span<std::byte const> mine;  ///< what this group has sent
  std::span<std::byte const> all;   ///< sum: the sum; gather: the payloads, see of_group
  std::size_t stride = 0;           ///< bytes from the payload of a group to that of the next
  int groups = 1;

  [[nodiscard]] std::span<std::byte const> of_group(std::size_t group) const {
    return all.subspan(group * stride, mine.size());
  }
};

namespace detail {

template <class Compressor>
concept has_compressor_sizes = requires(Compressor const& compressor, unit_shape shape, int round) {
  { compressor.combines(round) } -> std::same_as<combination>;
  { compressor.description() } -> std::same_as<std::string>;
  { compressor.rounds() } -> std::same_as<int>;
  { compressor.payload_bytes(shape, round) } -> std::same_as<std::size_t>;
  { compressor.state_elements(shape) } -> std::same_as<std::size_t>;
  { compressor.scratch_elements(shape) } -> std::same_as<std::size_t>;
  { compressor.needs_residual(shape) } -> std::same_as<bool>;
};
template <class Compressor>
concept has_compressor_functions = requires(Compressor const& compressor,
                                            compression_unit const& unit,
                                            std::span<float const> input,
                                            std::span<combined_payload const> before,
                                            std::span<std::byte> payload, std::span<float> output) {
  { compressor.encode(unit, input, before, payload) } -> std::same_as<void>;
  { compressor.own(unit, before, output) } -> std::same_as<void>;
  { compressor.decode(unit, before, output) } -> std::same_as<void>;
};

/// Whether the size of a payload depends on the combined payloads of earlier exchanges.
template <class Compressor>
concept sizes_its_payloads = requires(Compressor const& compressor, compression_unit const& unit,
                                      std::span<combined_payload const> before) {
  { compressor.payload_bytes_after(unit, before) } -> std::same_as<std::size_t>;
};

}  // namespace detail

/// A value that encodes the floats of a unit as payloads, and decodes the payloads of all groups to
/// the average of the groups. Its options are members; the caller keeps its state.
///
/// `description()`: its name and all options; groups whose descriptions differ disagree.
/// `rounds()`: how many exchanges it takes, numbered from 0 (not the rounds of parameter_exchange,
/// which are training steps). A payload may depend on the combined payloads of earlier exchanges.
/// `combines(round)`: how the payloads of that exchange are combined.
/// `payload_bytes(shape, round)`: equal on all ranks; may be 0. If the size depends on the
/// elements, this is the upper limit, and there is also `payload_bytes_after(unit, before)`, the
/// size given the combined payloads of earlier exchanges.
/// `state_elements(shape)`, `scratch_elements(shape)`: the numbers of floats that a unit needs.
/// @throws argument_error if options are invalid, or sizes are too large
///
/// `encode(unit, input, before, payload)`: writes the payload of exchange before.size().
/// `own(unit, rounds, output)`: decodes the payloads of this group alone; the difference to the
/// input is the residual.
/// `decode(unit, rounds, output)`: the average over the groups, with equal bits in all groups.
/// All of them are pure, given unit.state, which decode may change in the same way in all groups.
/// They write every byte or element, and do not allocate. A unit of zeros is decoded as zeros.
///
/// `needs_residual(shape)`: whether `own` may differ from the input by more than a random error
/// with mean zero: then the difference has to be added to the next input.
template <class Compressor>
concept compressor = std::copy_constructible<Compressor> &&
    detail::has_compressor_sizes<Compressor> && detail::has_compressor_functions<Compressor>;

namespace detail {

/// A product of sizes in bytes.
/// @throws argument_error if it is too large
[[nodiscard]] inline std::size_t checked_product(char const* what, std::size_t a, std::size_t b) {
  require(a == 0 || b <= std::numeric_limits<std::size_t>::max() / 2 / a, what, ": ", a, " times ",
          b, " bytes; expected a number that can be counted");
  return a * b;
}

}  // namespace detail
}  // namespace fssdp
