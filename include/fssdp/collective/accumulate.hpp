// SPDX-License-Identifier: Apache-2.0
/// Sums any number of sources in one pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/core/dtype.hpp"

namespace fssdp {

/// One operand of a sum: a partial gradient as it was computed (T), or a sum that another rank has
/// formed of several (accumulator_t<T>). One of the two pointers is set.
template <element T>
struct summand {
  T const* partial = nullptr;
  accumulator_t<T> const* summed = nullptr;
};

/// What a reduction does to its output.
enum class output { write, accumulate };

/// out[i] = scale * (s0[i] + s1[i] + ...), or adds that to out. The sum is formed in
/// accumulator_t<T>, in the order of the summands, scaled once and rounded once.
/// @pre at least one summand; `out` overlaps none of them
/// @cost reads every summand once, writes `out` once, no allocation
template <element T, element Out>
void accumulate(std::span<summand<T> const> summands, std::span<Out> out,
                accumulator_t<T> scale = 1, output how = output::write) {
  using sum_type = accumulator_t<T>;
  using wide = std::common_type_t<sum_type, accumulator_t<Out>>;  // what is there may be wider
  constexpr auto block = std::size_t{1024};                       // stays in the first-level cache
  auto sums = std::array<sum_type, block>{};
  for (std::size_t first = 0; first < out.size(); first += block) {
    auto const n = std::min(block, out.size() - first);
    auto const load = [&](summand<T> const& s, auto combine) {
      if (s.summed != nullptr)
        for (std::size_t i = 0; i < n; ++i) combine(sums[i], s.summed[first + i]);
      else
        for (std::size_t i = 0; i < n; ++i)
          combine(sums[i], static_cast<sum_type>(s.partial[first + i]));
    };
    load(summands.front(), [](sum_type& sum, sum_type value) { sum = value; });
    for (auto const& s : summands.subspan(1))
      load(s, [](sum_type& sum, sum_type value) { sum += value; });
    auto const target = out.subspan(first, n);
    if (how == output::write)
      for (std::size_t i = 0; i < n; ++i) target[i] = static_cast<Out>(scale * sums[i]);
    else
      for (std::size_t i = 0; i < n; ++i)
        target[i] =
            static_cast<Out>(static_cast<wide>(target[i]) + static_cast<wide>(scale * sums[i]));
  }
}

}  // namespace fssdp
