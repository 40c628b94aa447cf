// SPDX-License-Identifier: Apache-2.0
// What compressors cost on the host. Bound: a copy of the floats of the unit.
//
// Two groups that have the same gradient: all that one of them computes in a step, nothing is sent.
// encode_ns, own_ns and decode_ns are for one element, and all_ns is their sum; times_copy says how
// many copies of the unit take as long as all three; sent is the share of the bytes of fp32 that
// crosses. pays_below_Gbit: if the link between the groups carries less per second, compressing is
// faster than a full exchange that nothing hides; 0: never, inf: always. All times are processor
// times, of the fastest call.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/codec/shifted_codec.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"

namespace {

/// Seconds that this thread has computed: what other programs take from the machine is not ours.
[[nodiscard]] double thread_seconds() {
  auto now = timespec{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
/// Those of one call.
template <class Work>
[[nodiscard]] double seconds_of(Work work) {
  auto const begin = thread_seconds();
  work();
  benchmark::ClobberMemory();
  return thread_seconds() - begin;
}

/// Numbers around 0, most of them small.
[[nodiscard]] std::vector<float> gradient(std::size_t elements) {
  auto const draw = fssdp::counter_random{1};
  auto all = std::vector<float>(elements);
  for (std::size_t i = 0; i < elements; ++i)
    all[i] = draw[4 * i] + draw[4 * i + 1] - draw[4 * i + 2] - draw[4 * i + 3];
  return all;
}

/// A step of a group that has a counterpart with the same gradient.
template <class Compressor>
class step_of_two {
 public:
  step_of_two(Compressor compressor, fssdp::unit_shape shape)
      : compressor_{std::move(compressor)},
        input_{gradient(shape.elements())},
        output_(shape.elements()),
        state_(compressor_.state_elements(shape)),
        scratch_(compressor_.scratch_elements(shape)),
        unit_{.shape = shape, .shared_key = 1, .own_key = 2, .state = state_, .scratch = scratch_} {
  }

  struct timing {
    double copy = std::numeric_limits<double>::infinity();
    double encode = copy;
    double own = copy;
    double decode = copy;
    std::size_t sent = 0;  ///< bytes
  };
  /// Lowers what takes less time than before.
  void run(timing& least) {
    auto const lower = [](double& to, double seconds) { to = std::min(to, seconds); };
    lower(least.copy, seconds_of([&] {
            std::memcpy(output_.data(), input_.data(), std::span{input_}.size_bytes());
          }));
    rounds_.clear();
    least.sent = 0;
    auto encode = 0.0;
    for (int round = 0; round < compressor_.rounds(); ++round) {
      auto payload = std::vector<std::byte>(payload_bytes());
      encode += seconds_of([&] { compressor_.encode(unit_, input_, combined(), payload); });
      least.sent += payload.size();
      rounds_.push_back(combine(std::move(payload), compressor_.combines(round)));
    }
    lower(least.encode, encode);
    auto const all = combined();
    if (compressor_.needs_residual(unit_.shape))
      lower(least.own, seconds_of([&] { compressor_.own(unit_, all, output_); }));
    else
      least.own = 0;
    lower(least.decode, seconds_of([&] { compressor_.decode(unit_, all, output_); }));
  }

 private:
  struct round {
    std::vector<std::byte> mine;
    std::vector<std::byte> all;
  };
  [[nodiscard]] std::size_t payload_bytes() const {
    if constexpr (fssdp::detail::sizes_its_payloads<Compressor>)
      return compressor_.payload_bytes_after(unit_, combined());
    else
      return compressor_.payload_bytes(unit_.shape, static_cast<int>(rounds_.size()));
  }
  [[nodiscard]] static round combine(std::vector<std::byte> payload, fssdp::combination how) {
    auto all = payload;
    if (how == fssdp::combination::gather) {
      all.insert(all.end(), payload.begin(), payload.end());
    } else {
      for (std::size_t i = 0; i < all.size() / sizeof(float); ++i)
        fssdp::detail::put_float(all, i, 2 * fssdp::detail::float_at(payload, i));
    }
    return {std::move(payload), std::move(all)};
  }
  [[nodiscard]] std::vector<fssdp::combined_payload> combined() const {
    auto all = std::vector<fssdp::combined_payload>{};
    for (auto const& of : rounds_)
      all.push_back({.mine = of.mine, .all = of.all, .stride = of.mine.size(), .groups = 2});
    return all;
  }

  Compressor compressor_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> state_;
  std::vector<float> scratch_;
  fssdp::compression_unit unit_;
  std::vector<round> rounds_;
};

/// The argument is the KiB of a unit, a square matrix.
template <class Compressor>
void compress(benchmark::State& state, Compressor const& compressor) {
  auto side = std::size_t{1};
  while (4 * side * side < static_cast<std::size_t>(state.range(0)) << 10U) side *= 2;
  auto step = step_of_two{compressor, {side, side}};
  auto full = step_of_two{fssdp::full_compressor{}, {side, side}};
  auto least = typename decltype(step)::timing{};
  auto of_full = decltype(full)::timing{};
  for (auto _ : state) {
    step.run(least);
    full.run(of_full);
  }
  auto const elements = static_cast<double>(side * side);
  auto const seconds = least.encode + least.own + least.decode;
  auto const full_seconds = of_full.encode + of_full.own + of_full.decode;
  auto const saved = static_cast<double>(of_full.sent) - static_cast<double>(least.sent);
  state.counters["encode_ns"] = least.encode * 1e9 / elements;
  state.counters["own_ns"] = least.own * 1e9 / elements;
  state.counters["decode_ns"] = least.decode * 1e9 / elements;
  state.counters["all_ns"] = seconds * 1e9 / elements;
  state.counters["times_copy"] = seconds / std::min(least.copy, of_full.copy);
  state.counters["sent"] = static_cast<double>(least.sent) / static_cast<double>(of_full.sent);
  auto const more_seconds = std::max(0.0, seconds - full_seconds);
  state.counters["pays_below_Gbit"] = saved > 0 ? 8e-9 * saved / more_seconds : 0;
}

void units(benchmark::internal::Benchmark* of) {
  of->ArgName("KiB")->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);
  of->Unit(benchmark::kMicrosecond)->MinTime(0.1);
}

using fssdp::codec_compressor;
using dct = fssdp::top_dct_compressor;
using quantized = fssdp::quantized_compressor;

BENCHMARK_CAPTURE(compress, full, fssdp::full_compressor{})->Apply(units);
BENCHMARK_CAPTURE(compress, bf16, codec_compressor<fssdp::bf16_codec>{})->Apply(units);
BENCHMARK_CAPTURE(compress, int8, codec_compressor<fssdp::int8_codec>{})->Apply(units);
BENCHMARK_CAPTURE(compress, shifted_8, codec_compressor<fssdp::shifted_codec<8>>{})->Apply(units);
BENCHMARK_CAPTURE(compress, dct_4_of_64, dct{})->Apply(units);
BENCHMARK_CAPTURE(compress, dct_32_of_64, dct{{.kept = 32}})->Apply(units);
BENCHMARK_CAPTURE(compress, dct_32_of_64x64, dct{{.rows = 64, .columns = 64, .kept = 32}})
    ->Apply(units);
BENCHMARK_CAPTURE(compress, ternary, fssdp::ternary_compressor{})->Apply(units);
BENCHMARK_CAPTURE(compress, quantized_8, quantized{})->Apply(units);
BENCHMARK_CAPTURE(compress, quantized_8_shifted,
                  quantized{{.rounding = fssdp::quantized_rounding::shifted}})
    ->Apply(units);
BENCHMARK_CAPTURE(compress, quantized_4, quantized{{.bits = 4}})->Apply(units);
BENCHMARK_CAPTURE(compress, low_rank_1, fssdp::low_rank_compressor{.rank = 1})->Apply(units);
BENCHMARK_CAPTURE(compress, low_rank_4, fssdp::low_rank_compressor{.rank = 4})->Apply(units);
BENCHMARK_CAPTURE(compress, strided_16, fssdp::strided_compressor{16})->Apply(units);
BENCHMARK_CAPTURE(compress, random_16th, fssdp::random_compressor{})->Apply(units);
BENCHMARK_CAPTURE(compress, threshold_95, fssdp::threshold_compressor{})->Apply(units);

}  // namespace
