// SPDX-License-Identifier: Apache-2.0
/// What the README of include/fssdp/comm shows of communicators between threads.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;

namespace {

/// What the guide says that every communicator offers.
class declared_communicator {
 public:
#include "guides/include/fssdp/comm/README.md/1.inc"
};

/// The extras that it shows for hosts.
class mine {
 public:
#include "guides/include/fssdp/comm/README.md/1.inc"
#include "guides/include/fssdp/comm/README.md/2.inc"
};

struct my_stream {};
/// The members that it shows for devices.
class declared_on_device {
 public:
#include "guides/include/fssdp/comm/README.md/1.inc"
#include "guides/include/fssdp/comm/README.md/3.inc"
};

}  // namespace

TEST_CASE("what the guide says that every communicator offers is a communicator") {
  STATIC_REQUIRE(fssdp::communicator<declared_communicator>);
}

TEST_CASE("a class with the signatures of the guide offers the extras of hosts") {
  STATIC_REQUIRE(fssdp::lending_communicator<mine>);
  STATIC_REQUIRE(fssdp::forwarding_communicator<mine>);
  STATIC_REQUIRE(fssdp::announcing_communicator<mine>);
  STATIC_REQUIRE(fssdp::connecting_communicator<mine>);
  STATIC_REQUIRE(fssdp::duplicable_communicator<mine>);
  STATIC_REQUIRE(fssdp::splittable_communicator<mine>);
  STATIC_REQUIRE(fssdp::survivable_communicator<mine>);
}

TEST_CASE("a class with the signatures of the guide is a communicator between devices") {
  STATIC_REQUIRE(fssdp::submitting_communicator<declared_on_device>);
  STATIC_REQUIRE(fssdp::coding_communicator<declared_on_device>);
  STATIC_REQUIRE(fssdp::gathering_communicator<declared_on_device>);
}

TEST_CASE("groups as in the guide: ranks gather in their row of a mesh") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan =
      fssdp::make_plan(layout, fssdp::everywhere{}(fssdp::expert_loads(4, 1), layout));
  auto const wrong = support::on_all_ranks(8, [&](fssdp::thread_communicator& comm) {
    auto const rank = comm.rank().value();
    auto const in_row = rank_id{rank % 2};
    auto weights = fssdp::make_shard<float>(layout, in_row, 3);
    auto replicas = fssdp::make_replicas<float>(plan, in_row, 3);
    auto const value = [&](fssdp::expert_id expert) {
      return static_cast<float>(10 * (rank / 2) + expert.value());
    };
    for (std::size_t slot = 0; auto const chunk : layout.owned(in_row))
      for (auto& weight : weights.tensors()[0][slot++]) weight = value(chunk.expert);
#include "guides/include/fssdp/comm/README.md/5.inc"
    auto errors = (experts->size() == 2 ? 0 : 1) + (data->size() == 4 ? 0 : 1);
    for (std::size_t slot = 0; auto const expert : plan.remote(in_row))
      for (auto const replica : replicas.tensors()[0][slot++])
        errors += replica == value(expert) ? 0 : 1;
    return errors;
  });
  REQUIRE(wrong == std::vector<int>(8));
}
