// SPDX-License-Identifier: Apache-2.0
/// A rank that fails or stalls between groups is named on every rank, within the deadline.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::rank_id;

namespace {

using namespace std::chrono_literals;

/// Two groups of two ranks; rank 3 does something else in its third step.
template <class Odd>
[[nodiscard]] support::fallout fallout_with(Odd odd) {
  auto const groups = fssdp::hybrid_groups{{.groups = 2, .ranks_per_group = 2}};
  auto const layouts = support::owners_by_chance(6, 2, 1);
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = 1s}};
  return support::fallout_of(world, [&](fssdp::thread_communicator& comm) {
    auto two = fssdp::split(comm, groups);
    auto exchange = fssdp::gradient_exchange{two.between,
                                             layouts,
                                             two.inside.rank(),
                                             support::two_shapes(),
                                             {.compressor = fssdp::low_rank_compressor{2}}};
    auto gradients = fssdp::expert_buffer<float>{0, support::sizes_of(support::two_shapes())};
    for (std::uint64_t step = 0; step < 5; ++step) {
      if (step == 2 && comm.rank() == rank_id{3}) odd();
      for (auto const layer : fssdp::first_n<layer_id>(2)) {
        support::write_gradients(layouts, layer, two.inside.rank(), two.between.rank().value(),
                                 step, gradients);
        exchange.average(layer, gradients);
      }
      exchange.advance();
      (void)fssdp::all_reduce(two.inside, std::vector{1.0});  // as a step inside the group does
    }
  });
}

}  // namespace

TEST_CASE("a rank that throws between groups is told to all groups") {
  auto const end = fallout_with([] { throw std::runtime_error{"broken"}; });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("broken") != std::string::npos);
    if (rank != 3) CHECK(support::is<fssdp::peer_failed>(thrown));
  }
}

TEST_CASE("a rank that stalls between groups is missed within the deadline") {
  auto const end = fallout_with([] { std::this_thread::sleep_for(3s); });
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    auto const& thrown = end.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(thrown != nullptr);
    CHECK(fssdp::detail::what(thrown).find("rank 3") != std::string::npos);
  }
}
