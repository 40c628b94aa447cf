// SPDX-License-Identifier: Apache-2.0
/// Sums any number of sources in one pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "fssdp/element/dtype.hpp"
#include "fssdp/element/sum_loops.hpp"
#include "fssdp/element/write_mode.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/stream_lines.hpp"

namespace fssdp {

/// One operand of a sum of T: a partial gradient as it was computed (T), or a sum of several that
/// another rank has formed
/// (accumulator_t<T>). One of the two pointers is set.
struct summand {
  void const* partial = nullptr;
  void const* summed = nullptr;
};

namespace detail {

/// Sums of this size or larger bypass the caches. A sum reads more than it writes, so this costs
/// nothing even if everything would fit into the caches.
inline constexpr std::size_t large_sum = std::size_t{1} << 20U;

/// The elements of the only operand of a sum, if it is unscaled and has the type of the result;
/// else null.
/// @param partials_fit whether partials have the type of the result
/// @param sums_fit     whether sums have
[[nodiscard]] inline void const* only_operand(std::span<summand const> summands, bool partials_fit,
                                              bool sums_fit, double scale, write_mode how) {
  if (summands.size() != 1 || scale != 1 || how != write_mode::overwrite) return nullptr;
  auto const& only = summands.front();
  if (only.partial != nullptr) return partials_fit ? only.partial : nullptr;
  return sums_fit ? only.summed : nullptr;
}

/// Forms a sum block by block.
template <element T, element Out>
class block_sum {
  using sum_type = accumulator_t<T>;

 public:
  /// How a block is written: also bypassing the caches, or added to the output.
  enum class target { write, stream, accumulate };

  block_sum(std::span<summand const> summands, sum_type scale)
      : summands_{summands}, scale_{scale} {}

  /// Forms the block that begins at element `first` of the operands.
  void form(std::size_t first, target how, Out* out) {
    auto left = summands_;
    for (auto begun = false; !left.empty(); begun = true) {
      auto taken = take<T>(left, first, begun, how, out);
      if (taken == 0) taken = take<sum_type>(left, first, begun, how, out);
      left = left.subspan(taken);
    }
  }

  /// The same for n elements, fewer than a block: one loop for each operand.
  void form_few(std::size_t first, std::size_t n, write_mode how, Out* out) {
    using wide = std::common_type_t<sum_type, accumulator_t<Out>>;  // the output may be wider
    auto const load = [&](summand const& s, auto combine) {
      if (auto const* const sums = static_cast<sum_type const*>(s.summed))
        for (std::size_t i = 0; i < n; ++i) combine(sums_[i], sums[first + i]);
      else
        for (std::size_t i = 0; i < n; ++i)
          combine(sums_[i], static_cast<sum_type>(static_cast<T const*>(s.partial)[first + i]));
    };
    load(summands_.front(), [](sum_type& sum, sum_type value) { sum = value; });
    for (auto const& s : summands_.subspan(1))
      load(s, [](sum_type& sum, sum_type value) { sum += value; });
    if (how == write_mode::overwrite)
      for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(scale_ * sums_[i]);
    else
      for (std::size_t i = 0; i < n; ++i)
        out[i] = static_cast<Out>(static_cast<wide>(out[i]) + static_cast<wide>(scale_ * sums_[i]));
  }

 private:
  /// The elements of an operand; null if they are of another type.
  template <class Source>
  static Source const* elements(summand const& s) {
    if constexpr (std::is_same_v<T, sum_type>)
      return static_cast<Source const*>(s.partial != nullptr ? s.partial : s.summed);
    else
      return static_cast<Source const*>(std::is_same_v<Source, T> ? s.partial : s.summed);
  }

  /// Adds the operands at the front that have the same type, at most four, in one loop. Returns
  /// their number.
  template <class Source>
  std::size_t take(std::span<summand const> list, std::size_t first, bool begun, target how,
                   Out* out) {
    auto from = std::array<Source const*, 4>{};
    auto const limit = std::min(from.size(), list.size());
    auto n = std::size_t{0};
    for (; n < limit; ++n) {
      auto const* const data = elements<Source>(list[n]);
      if (data == nullptr) break;
      from[n] = data + first;
    }
    auto const last = n == list.size();
    if (n == 1) add<1>(from.data(), begun, last, how, out);
    if (n == 2) add<2>(from.data(), begun, last, how, out);
    if (n == 3) add<3>(from.data(), begun, last, how, out);
    if (n == 4) add<4>(from.data(), begun, last, how, out);
    return n;
  }

  template <std::size_t N, class Source>
  void add(Source const* const* from, bool begun, bool last, target how, Out* out) {
    constexpr auto all = std::make_index_sequence<N>{};
    constexpr auto rest = std::make_index_sequence<N - 1>{};
    if (last && begun) finish(sums_.data(), from, how, out, all);
    if (last && !begun) finish(from[0], from + 1, how, out, rest);
    if (!last && begun) go_on(from, all);
    if (!last && !begun) begin(from, rest);
  }
  template <class Source, std::size_t... K>
  void begin(Source const* const* from, std::index_sequence<K...>) {
    sum_loops<sum_type, K...>::begin(from[0], from + 1, sums_.data());
  }
  template <class Source, std::size_t... K>
  void go_on(Source const* const* from, std::index_sequence<K...>) {
    sum_loops<sum_type, K...>::go_on(from, sums_.data());
  }
  template <class First, class Source, std::size_t... K>
  void finish(First const* first, Source const* const* more, target how, Out* out,
              std::index_sequence<K...>) const {
    using loops = sum_loops<sum_type, K...>;
    if (how == target::write) loops::write(first, more, scale_, out);
    if (how == target::stream) loops::stream(first, more, scale_, out);
    if (how == target::accumulate) loops::accumulate(first, more, scale_, out);
  }

  std::span<summand const> summands_;
  sum_type scale_;
  std::array<sum_type, sum_block> sums_{};
};

}  // namespace detail

/// out[i] = scale * (s0[i] + s1[i] + ...), or adds that to out. The sum is formed in
/// accumulator_t<T>, in the order of the summands, scaled once and rounded once. A single unscaled
/// summand with the type of `out` is copied.
/// @tparam T the type of the partials, which summands do not have in their type
/// @pre at least one summand; all have out.size() elements; `out` overlaps none of them
/// @cost reads every summand once, writes `out` once, bypassing the caches if it is large; no
///       allocation
template <detail::native T, detail::native Out>
void accumulate(std::span<summand const> summands, std::span<Out> out, accumulator_t<T> scale = 1,
                write_mode how = write_mode::overwrite) {
  using sum_type = detail::block_sum<T, Out>;
  using target = typename sum_type::target;
  if (auto const* const only = detail::only_operand(
          summands, std::is_same_v<T, Out>, std::is_same_v<accumulator_t<T>, Out>, scale, how)) {
    auto const from = std::span{static_cast<std::byte const*>(only), out.size_bytes()};
    copy_bytes(std::as_writable_bytes(out), from);
    return;
  }
  auto sum = sum_type{summands, scale};
  auto to = how == write_mode::overwrite ? target::write : target::accumulate;
  auto first = std::size_t{0};
  if (how == write_mode::overwrite && out.size_bytes() >= detail::large_sum) {
    to = target::stream;
    first = detail::bytes_to_line(out.data()) / sizeof(Out);
    sum.form_few(0, first, how, out.data());
  }
  for (; out.size() - first >= detail::sum_block; first += detail::sum_block)
    sum.form(first, to, out.data() + first);
  if (to == target::stream) detail::finish_stream();
  sum.form_few(first, out.size() - first, how, out.data() + first);
}

#ifdef FSSDP_COMPILED
extern template void accumulate<float, float>(std::span<summand const>, std::span<float>, float,
                                              write_mode);
#endif

/// The same for types of other libraries.
template <element T, element Out>
requires detail::any_foreign<T, Out>
void accumulate(std::span<summand const> summands, std::span<Out> out, accumulator_t<T> scale = 1,
                write_mode how = write_mode::overwrite) {
  accumulate<detail::native_element_t<T>>(summands, detail::as_native(out), scale, how);
}

}  // namespace fssdp
