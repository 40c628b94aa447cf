// SPDX-License-Identifier: Apache-2.0
/// What crosses between groups of processes: the bits of groups of threads, with and without overlap.
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "mpi/processes.hpp"
#include "support/on_all_ranks.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

constexpr auto experts = 3;

/// The results of counterparts by every kind of exchange, as a hash. Every rank is a group.
template <class Comm>
[[nodiscard]] std::uint64_t hash_after(Comm& between, bool overlaps) {
  auto const layouts = support::owners_by_chance(experts, 1, 1);
  auto const me = between.rank().value();
  auto stream = fssdp::host_stream{};
  auto* const behind = overlaps ? &stream : nullptr;
  auto exchanges = between.duplicate();
  auto hash = fssdp::detail::hasher{};
  auto values = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};

  for (auto options : std::vector<fssdp::gradient_exchange_options>{
           {},
           fssdp::demo(fssdp::top_dct_compressor{}),
           {.compressor = fssdp::ternary_compressor{}},
           {.compressor = fssdp::threshold_compressor{}},
           {.compressor = fssdp::low_rank_compressor{.rank = 2}}}) {
    options.stream = behind;
    auto exchange =
        fssdp::gradient_exchange{exchanges, layouts, rank_id{0}, support::two_shapes(), options};
    for (std::uint64_t step = 0; step < 3; ++step) {
      support::write_gradients(layouts, layer_id{0}, rank_id{0}, me, step, values);
      exchange.average(layer_id{0}, values, 0.5);
      exchange.synchronize();
      exchange.advance();
      fssdp::require_equal_bits(between, values);
      hash.mix(fssdp::hash_of_bits(values));
    }
  }
  auto rounds = fssdp::parameter_exchange{exchanges,
                                          layouts,
                                          rank_id{0},
                                          support::two_shapes(),
                                          {.outer = fssdp::diloco, .stream = behind}};
  auto late = fssdp::delayed_exchange{
      exchanges, layouts, rank_id{0}, support::two_shapes(), {.stream = behind}};
  rounds.begin(layer_id{0}, values);
  late.begin(layer_id{0}, values);
  for (std::uint64_t step = 1; step < 4; ++step) {
    support::write_gradients(layouts, layer_id{0}, rank_id{0}, me, step, values);
    rounds.synchronize(layer_id{0}, values, step);
    rounds.advance();
    fssdp::require_equal_bits(between, values);
    hash.mix(fssdp::hash_of_bits(values));
    support::write_gradients(layouts, layer_id{0}, rank_id{0}, me, step, values);
    late.first_step(layer_id{0}, values);
    (void)late.gap_of_rank();
    late.synchronize(layer_id{0}, values, 1, step);
    late.advance();
    fssdp::require_equal_bits(between, values);
    hash.mix(fssdp::hash_of_bits(values));
    (void)late.kept();  // the other exchange uses the same communicator
  }
  return hash.value();
}

}  // namespace

TEST_CASE("exchanges between groups of processes have the bits of groups of threads") {
  auto const ranks = processes().size();
  auto const expected = support::on_all_ranks(ranks, [](fssdp::thread_communicator& between) {
                          return hash_after(between, false);
                        }).front();
  for (bool const overlaps : {false, true})
    REQUIRE(sum_over(ranks, {}, [&](fssdp::mpi_communicator& between) {
              return hash_after(between, overlaps) == expected ? 0 : 1;
            }) == 0);
}
