// SPDX-License-Identifier: Apache-2.0
/// The concept of a load predictor: loads of past iterations in, loads to plan with out.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// A value that takes the loads of every iteration, [experts], and expects those of the next one.
///
/// Loads are sums over all ranks, so a prediction does not depend on how many there are: a history
/// outlives a change of the world. Laws: equal histories give equal predictions; after equal loads
/// the prediction is those loads; before any it is zero. `resize` changes the number
/// of experts: those there are keep their ids and histories, the last ones go, and a new one begins
/// with the mean of the others, rounded up, as solvers would leave out an expert that expects
/// nothing.
template <class Predictor>
concept load_predictor = std::copyable<Predictor> && std::equality_comparable<Predictor> &&
    requires(Predictor& grows, Predictor const& knows, std::span<std::uint64_t const> now) {
  grows.push(now);
  grows.resize(int{});
  { knows.predict() } -> std::convertible_to<std::span<std::uint64_t const>>;
};

/// Optional extra: a predictor that a checkpoint can keep. `memory()` is all that its predictions
/// depend on, as numbers; one that was made alike and is told to `recall` them predicts the same
/// from then on.
template <class Predictor>
concept remembering_load_predictor = load_predictor<Predictor> &&
    requires(Predictor& grows, Predictor const& knows, std::span<std::uint64_t const> memory) {
  { knows.memory() } -> std::convertible_to<std::vector<std::uint64_t>>;
  grows.recall(memory);
};

namespace detail {

/// Makes room for `experts` numbers, of which new ones are the mean of the others, rounded up.
template <class Numbers>
void resize_by_mean(Numbers& numbers, std::size_t experts) {
  __extension__ typedef unsigned __int128 wide;
  auto sum = wide{0};
  for (auto const number : numbers) sum += number;
  auto const count = std::max<wide>(1, numbers.size());
  numbers.resize(experts, static_cast<typename Numbers::value_type>((sum + count - 1) / count));
}

}  // namespace detail
}  // namespace fssdp
