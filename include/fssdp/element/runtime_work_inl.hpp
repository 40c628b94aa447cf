// SPDX-License-Identifier: Apache-2.0
/// The loops of conversions and sums between any two dtypes.
///
/// Six dtypes have 36 pairs, and compiling the loops of `convert` and `accumulate` for each takes
/// many seconds. Here elements pass through a block of their accumulator type, which stays in the
/// first-level cache: there are loops that read each dtype, and loops that write each. The bits are
/// those of `convert` and `accumulate`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/converted.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/element/sum_loops.hpp"
#include "fssdp/element/write_mode.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/stream_lines.hpp"

namespace fssdp::detail {

/// Reads a block of one dtype, each element as its accumulator type.
struct block_reader {
  static constexpr std::size_t at_once = 4;

  /// sums[i] = from[0][i] + from[1][i] + ..., of 1 to at_once operands.
  void (*begin)(std::span<std::byte const* const> from, void* sums);
  /// sums[i] = sums[i] + from[0][i] + from[1][i] + ...
  void (*go_on)(std::span<std::byte const* const> from, void* sums);
};
/// Writes a block of sums as another dtype.
struct block_writer {
  void (*convert)(void const* sums, void* out);  ///< out[i] = sums[i]; null if out has their type
  void (*write)(void const* sums, double scale, void* out);       ///< out[i] = scale * sums[i]
  void (*accumulate)(void const* sums, double scale, void* out);  ///< out[i] += scale * sums[i]
};

template <element T>
class block_reader_of {
  using sum_type = accumulator_t<T>;
  using operands = std::span<std::byte const* const>;

 public:
  static void begin(operands from, void* sums) {
    auto const at = typed(from);
    auto* const to = static_cast<sum_type*>(sums);
    auto const* const more = at.data() + 1;
    if (from.size() == 1) sum_loops<sum_type>::begin(at[0], more, to);
    if (from.size() == 2) sum_loops<sum_type, 0>::begin(at[0], more, to);
    if (from.size() == 3) sum_loops<sum_type, 0, 1>::begin(at[0], more, to);
    if (from.size() == 4) sum_loops<sum_type, 0, 1, 2>::begin(at[0], more, to);
  }
  static void go_on(operands from, void* sums) {
    auto const at = typed(from);
    auto* const to = static_cast<sum_type*>(sums);
    if (from.size() == 1) sum_loops<sum_type, 0>::go_on(at.data(), to);
    if (from.size() == 2) sum_loops<sum_type, 0, 1>::go_on(at.data(), to);
    if (from.size() == 3) sum_loops<sum_type, 0, 1, 2>::go_on(at.data(), to);
    if (from.size() == 4) sum_loops<sum_type, 0, 1, 2, 3>::go_on(at.data(), to);
  }

 private:
  [[nodiscard]] static auto typed(operands from) {
    auto at = std::array<T const*, block_reader::at_once>{};
    for (std::size_t i = 0; i < from.size(); ++i) at[i] = reinterpret_cast<T const*>(from[i]);
    return at;
  }
};
template <element T>
[[nodiscard]] constexpr block_reader make_block_reader() {
  return {.begin = &block_reader_of<T>::begin, .go_on = &block_reader_of<T>::go_on};
}

/// Converts a block.
template <class Sum, element Out>
void convert_block(Sum const* sums, Out* __restrict out) {
  for (std::size_t i = 0; i < sum_block; ++i) out[i] = converted<Out>(sums[i]);
}

template <class Sum, element Out>
[[nodiscard]] constexpr block_writer make_block_writer() {
  using loops = sum_loops<Sum>;
  auto writer =
      block_writer{.convert = nullptr,
                   .write =
                       [](void const* sums, double scale, void* out) {
                         auto const* const none = static_cast<Sum const* const*>(nullptr);
                         loops::write(static_cast<Sum const*>(sums), none, static_cast<Sum>(scale),
                                      static_cast<Out*>(out));
                       },
                   .accumulate =
                       [](void const* sums, double scale, void* out) {
                         auto const* const none = static_cast<Sum const* const*>(nullptr);
                         loops::accumulate(static_cast<Sum const*>(sums), none,
                                           static_cast<Sum>(scale), static_cast<Out*>(out));
                       }};
  if constexpr (!std::is_same_v<Sum, Out>)
    writer.convert = [](void const* sums, void* out) {
      convert_block(static_cast<Sum const*>(sums), static_cast<Out*>(out));
    };
  return writer;
}

/// In the order of the values of dtype.
inline constexpr auto block_readers = std::array{
    make_block_reader<float>(), make_block_reader<double>(),   make_block_reader<bf16>(),
    make_block_reader<fp16>(),  make_block_reader<fp8_e4m3>(), make_block_reader<fp8_e5m2>()};
template <class Sum>
inline constexpr auto block_writers =
    std::array{make_block_writer<Sum, float>(),    make_block_writer<Sum, double>(),
               make_block_writer<Sum, bf16>(),     make_block_writer<Sum, fp16>(),
               make_block_writer<Sum, fp8_e4m3>(), make_block_writer<Sum, fp8_e5m2>()};

[[nodiscard]] inline block_reader const& reader_of(dtype type) {
  return block_readers[static_cast<std::size_t>(type)];
}
[[nodiscard]] inline block_writer const& writer_of(dtype sums, dtype type) {
  auto const& writers = sums == dtype::fp64 ? block_writers<double> : block_writers<float>;
  return writers[static_cast<std::size_t>(type)];
}

/// Room for a block of any dtype.
struct alignas(cache_line) any_block {
  std::array<std::byte, sum_block * sizeof(double)> bytes = {};
};

/// Sums whole blocks, or less than one.
class runtime_sum {
 public:
  runtime_sum(element_sum const& of, std::span<summand const> summands, double scale,
              write_mode how)
      : summands_{summands},
        scale_{scale},
        how_{how},
        partial_bytes_{bytes_of(of.partials)},
        sum_bytes_{bytes_of(accumulator_of(of.partials))},
        result_bytes_{bytes_of(of.results)},
        partials_{reader_of(of.partials)},
        sums_{reader_of(accumulator_of(of.partials))},
        results_{writer_of(accumulator_of(of.partials), of.results)} {}

  /// Forms a block that begins at element `first` of the operands.
  void form(std::size_t first, std::byte* out) {
    auto from = std::array<std::byte const*, block_reader::at_once>{};
    for (std::size_t i = 0; i < summands_.size();) {
      auto const begun = i != 0;
      auto const is_sum = summands_[i].summed != nullptr;
      auto n = std::size_t{0};
      while (n < from.size() && i < summands_.size() && (summands_[i].summed != nullptr) == is_sum)
        from[n++] = at(summands_[i++], first);
      read({from.data(), n}, is_sum, begun);
    }
    write(out);
  }
  /// The same, bypassing the caches.
  /// @pre `out` is aligned to a cache line; finish_stream() follows; overwrites
  void stream(std::size_t first, std::byte* out) {
    form(first, few_.bytes.data());
    stream_lines(out, few_.bytes.data(), sum_block * result_bytes_);
  }
  /// The same for n elements, fewer than a block.
  void form_few(std::size_t first, std::size_t n, std::byte* out) {
    if (n == 0) return;
    for (std::size_t i = 0; i < summands_.size(); ++i) {
      auto const is_sum = summands_[i].summed != nullptr;
      auto const* const block = few_.bytes.data();
      std::memcpy(few_.bytes.data(), at(summands_[i], first),
                  n * (is_sum ? sum_bytes_ : partial_bytes_));
      read({&block, 1}, is_sum, i != 0);
    }
    if (how_ == write_mode::accumulate) std::memcpy(few_.bytes.data(), out, n * result_bytes_);
    write(few_.bytes.data());
    std::memcpy(out, few_.bytes.data(), n * result_bytes_);
  }

 private:
  [[nodiscard]] std::byte const* at(summand const& operand, std::size_t first) const {
    if (operand.summed != nullptr)
      return static_cast<std::byte const*>(operand.summed) + first * sum_bytes_;
    return static_cast<std::byte const*>(operand.partial) + first * partial_bytes_;
  }
  void read(std::span<std::byte const* const> from, bool is_sum, bool begun) {
    auto const& reader = is_sum ? sums_ : partials_;
    (begun ? reader.go_on : reader.begin)(from, block_.bytes.data());
  }
  void write(std::byte* out) const {
    auto const overwrites = how_ == write_mode::overwrite;
    (overwrites ? results_.write : results_.accumulate)(block_.bytes.data(), scale_, out);
  }

  std::span<summand const> summands_;
  double scale_;
  write_mode how_;
  std::size_t partial_bytes_;
  std::size_t sum_bytes_;
  std::size_t result_bytes_;
  block_reader const& partials_;
  block_reader const& sums_;
  block_writer const& results_;
  any_block block_;  // the sums
  any_block few_;
};

/// As `accumulate`.
inline void sum_at_runtime(element_sum const& of, std::span<summand const> summands, void* out,
                           std::size_t elements, double scale, write_mode how) {
  auto const access = any_type_access{};
  auto const size = bytes_of(of.results);
  auto* const to = static_cast<std::byte*>(out);
  if (auto const* const only =
          only_operand(summands, of.partials == of.results,
                       accumulator_of(of.partials) == of.results, scale, how)) {
    copy_bytes({to, elements * size}, {static_cast<std::byte const*>(only), elements * size});
    return;
  }
  auto sum = runtime_sum{of, summands, scale, how};
  auto const streams = how == write_mode::overwrite && elements * size >= large_sum;
  auto first = streams ? bytes_to_line(out) / size : 0;
  sum.form_few(0, first, to);
  for (; elements - first >= sum_block; first += sum_block)
    streams ? sum.stream(first, to + first * size) : sum.form(first, to + first * size);
  if (streams) finish_stream();
  sum.form_few(first, elements - first, to + first * size);
}

/// As `convert`, for different dtypes.
inline void convert_at_runtime(element_conversion const& of, void const* from, void* to,
                               std::size_t elements) {
  auto const access = any_type_access{};
  auto const sum_type = accumulator_of(of.from_type);
  auto const begin = of.from_type == sum_type ? nullptr : reader_of(of.from_type).begin;
  auto const end = writer_of(sum_type, of.to_type).convert;
  auto sums = any_block{};
  auto const convert_block = [&](std::byte const* source, std::byte* target) {
    if (begin != nullptr) begin({&source, 1}, end != nullptr ? sums.bytes.data() : target);
    if (end != nullptr) end(begin != nullptr ? sums.bytes.data() : source, target);
  };
  auto const from_bytes = bytes_of(of.from_type);
  auto const to_bytes = bytes_of(of.to_type);
  auto const* source = static_cast<std::byte const*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (; elements >= sum_block; elements -= sum_block) {
    convert_block(source, target);
    source += sum_block * from_bytes;
    target += sum_block * to_bytes;
  }
  if (elements == 0) return;
  auto few = any_block{};
  auto results = any_block{};
  std::memcpy(few.bytes.data(), source, elements * from_bytes);
  convert_block(few.bytes.data(), results.bytes.data());
  std::memcpy(target, results.bytes.data(), elements * to_bytes);
}

FSSDP_INLINE element_conversion runtime_conversion(dtype from, dtype to) {
  if (from == to) return {};
  return {.on_host = &convert_at_runtime, .from_type = from, .to_type = to};
}
/// The most frequent case, fp32, has its own loops.
FSSDP_INLINE element_sum runtime_sum_of(dtype partials, dtype results) {
  if (partials == dtype::fp32 && results == dtype::fp32) return make_sum<float, float>();
  return {.on_host = &sum_at_runtime, .partials = partials, .results = results};
}

}  // namespace fssdp::detail
