// SPDX-License-Identifier: Apache-2.0
/// The concept of a load predictor: predicts the loads of the next iteration from those before.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// A value that is given the loads of every iteration, [experts], and predicts those of the next
/// one.
///
/// Loads are sums over all ranks, so a prediction does not depend on the number of ranks, and stays
/// valid when that changes. Laws: equal histories give equal predictions; after equal loads the
/// prediction is those loads; before any loads it is zero. `resize` sets the number of experts:
/// existing experts keep their ids and histories; if there are fewer, the last ones are removed; a
/// new one starts with the mean of the others, rounded up, as solvers would ignore an expert
/// without load.
template <class Predictor>
concept load_predictor = std::copyable<Predictor> && std::equality_comparable<Predictor> &&
    requires(Predictor& grows, Predictor const& knows, std::span<std::uint64_t const> now) {
  grows.push(now);
  grows.resize(int{});
  { knows.predict() } -> std::convertible_to<std::span<std::uint64_t const>>;
};

/// Optional: a predictor that a checkpoint can save. `memory()` returns the state that predictions
/// depend on, as numbers. After `recall` of these, another predictor with the same options makes
/// the same predictions.
template <class Predictor>
concept remembering_load_predictor = load_predictor<Predictor> &&
    requires(Predictor& grows, Predictor const& knows, std::span<std::uint64_t const> memory) {
  { knows.memory() } -> std::convertible_to<std::vector<std::uint64_t>>;
  grows.recall(memory);
};

namespace detail {

/// Sets the number of entries to `experts`; new ones are the mean of the others, rounded up.
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
