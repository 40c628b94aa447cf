// SPDX-License-Identifier: Apache-2.0
/// The concept of a compressor: what of a gradient crosses between groups, and how it is combined.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// The elements of a unit, which is compressed by itself: one tensor of one chunk. Where it is a
/// matrix, its rows lie one after the other.
struct unit_shape {
  std::size_t rows = 1;
  std::size_t columns = 0;
  [[nodiscard]] constexpr std::size_t elements() const { return rows * columns; }
  friend bool operator==(unit_shape const&, unit_shape const&) = default;
};

/// How the payloads of groups come together.
enum class combination {
  gather,  ///< every group gets the payloads of all: (groups - 1) times a payload sent by each
  sum      ///< payloads are floats, added in the order of the groups: 2 (groups - 1) / groups times
};

/// What a compressor knows of a unit besides its elements.
struct compression_unit {
  unit_shape shape;
  std::uint64_t shared_key = 0;   ///< for draws that are to be the same in all groups
  std::uint64_t own_key = 0;      ///< for draws that are to differ between groups
  std::uint64_t step = 0;         ///< counts exchanges
  std::span<float> state = {};    ///< the caller keeps it from one step to the next; zero at first
  std::span<float> scratch = {};  ///< of no meaning before and after a call
};

/// What has come together in one round.
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

/// Whether the size of a payload depends on what has come together in earlier rounds.
template <class Compressor>
concept sizes_its_payloads = requires(Compressor const& compressor, compression_unit const& unit,
                                      std::span<combined_payload const> before) {
  { compressor.payload_bytes_after(unit, before) } -> std::same_as<std::size_t>;
};

}  // namespace detail

/// A value that turns the floats of a unit into payloads, and the payloads of all groups into the
/// average of what they stand for. Options are members; what it remembers is the caller's.
///
/// `description()`: its name and all options: groups that differ in it disagree.
/// `rounds()`: how many exchanges it takes; what is sent in a later one may depend on what has come
/// together before.
/// `combines(round)`: how the payloads of a round come together.
/// `payload_bytes(shape, round)`: the same on all ranks; may be 0. Where it depends on the elements,
/// the most that it can be, and there is `payload_bytes_after(unit, before)`: what it is once the
/// rounds before have come together.
/// `state_elements(shape)`, `scratch_elements(shape)`: floats that a unit needs.
/// @throws argument_error if the options, or the bytes, cannot be
///
/// `encode(unit, input, before, payload)`: the payload of round before.size().
/// `own(unit, rounds, output)`: what the payloads of this group stand for: the rest is for a
/// residual.
/// `decode(unit, rounds, output)`: the average over the groups. Equal bits in all groups.
/// All of them are pure, given unit.state, which decode may change alike in all groups; they write
/// every byte and every element, allocate nothing, and a unit of zeros becomes zeros.
///
/// `needs_residual(shape)`: whether `own` may differ from the input, and not only by chance around
/// it: what is left out then has to be added to the next input.
template <class Compressor>
concept compressor = std::copy_constructible<Compressor> &&
    detail::has_compressor_sizes<Compressor> && detail::has_compressor_functions<Compressor>;

namespace detail {

/// A product of sizes.
/// @throws argument_error if it cannot be counted
[[nodiscard]] inline std::size_t checked_product(char const* what, std::size_t a, std::size_t b) {
  require(a == 0 || b <= std::numeric_limits<std::size_t>::max() / 2 / a, what, ": ", a, " times ",
          b, " bytes; expected a number that can be counted");
  return a * b;
}

}  // namespace detail
}  // namespace fssdp
