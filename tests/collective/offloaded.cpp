// SPDX-License-Identifier: Apache-2.0
/// What owners have may lie in files: gathers and reductions leave the same bits, over every wire.
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/file/file_memory.hpp"
#include "support/coded_bits.hpp"
#include "support/coded_instance.hpp"
#include "support/collective_bits.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/over_wires.hpp"
#include "support/temporary_folder.hpp"

using support::coded_instance;
using support::random_instance;

TEST_CASE("gathers from files and reductions into files leave the bits of ordinary memory") {
  auto const folder = support::temporary_folder{};
  auto files = fssdp::file_memory{folder.path()};
  support::for_random_instances(support::some_instances / 2, [&](random_instance const& of) {
    auto world = fssdp::thread_world{of.plan.ranks()};
    auto const here = support::on_all_ranks(
        world, [&](auto& comm) { return support::collective_bits(comm, of); });
    auto const offloaded = support::same_over_wires(
        world, [&](auto& comm) { return support::collective_bits(comm, of, &files); });
    REQUIRE(offloaded == here);
    REQUIRE(files.bytes() == 0);
  });
}

TEST_CASE("coded: gathers from files and reductions into files leave the bits of ordinary memory") {
  auto const folder = support::temporary_folder{};
  auto files = fssdp::file_memory{folder.path()};
  support::for_coded_instances(support::some_instances / 4, [&](coded_instance const& of) {
    auto world = fssdp::thread_world{of.plan.ranks()};
    auto const here =
        support::on_all_ranks(world, [&](auto& comm) { return support::coded_bits(comm, of); });
    auto const offloaded = support::on_all_ranks(
        world, [&](auto& comm) { return support::coded_bits(comm, of, &files); });
    REQUIRE(offloaded == here);
  });
}
