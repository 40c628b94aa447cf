// SPDX-License-Identifier: Apache-2.0
/// The law that carries the library: <G x, y> = <x, G^T y>, over every wire and stream, and both
/// sides what a plain loop over the placement gives.
#include <concepts>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"
#include "support/types.hpp"

using fssdp::bf16;
using fssdp::fp16;
using fssdp::thread_communicator;
using support::random_instance;
using support::rank_buffers;

namespace {

/// What one rank found.
struct finding {
  double gathered_times_partials = 0;
  double parameters_times_gradients = 0;
  support::differences wrong;
};

/// A gather, a gather in one piece and a reduction. Each is enqueued before the first is waited
/// for.
template <class Comm, class T, class Master>
void check(Comm& comm, rank_buffers<T, Master>& mine, finding& found) {
  auto const& plan = mine.of.plan;
  mine.clear_results();
  fssdp::sparse_all_gather(comm, plan, mine.shard, mine.replicas);
  fssdp::sparse_all_gather(comm, plan, mine.shard, mine.in_one_piece);
  fssdp::sparse_reduce_scatter(comm, plan, mine.partials, mine.gradients);
  fssdp::synchronize(comm);
  found.gathered_times_partials += mine.gathered_times_partials();
  found.parameters_times_gradients += mine.parameters_times_gradients();
  found.wrong += mine.wrong_replicas() + mine.wrong_in_one_piece() + mine.wrong_gradients() +
                 mine.wrong_inputs();
}

/// Everything a rank has to show: borrowed or received, in the caller or on a stream.
template <class T, class Master>
[[nodiscard]] finding check_everything(thread_communicator& comm, random_instance const& of) {
  auto found = finding{};
  auto mine = rank_buffers<T, Master>{of, comm.rank()};
  auto bare = support::exchange_only{comm};
  check(comm, mine, found);
  {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(bare, stream);
    check(queued, mine, found);
  }
  if constexpr (std::same_as<T, float>) {
    check(bare, mine, found);
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    check(queued, mine, found);
  }
  return found;
}

/// The type in which parameters and partial gradients travel, and that of their owners.
template <class T, class Master = T>
struct wire_types {
  using wire = T;
  using master = Master;
};

}  // namespace

TEMPLATE_TEST_CASE("<G x, y> = <x, G^T y>, exactly, over every wire and stream", "",
                   TYPES_OF_A_TEST((wire_types<float>), (wire_types<bf16, float>),
                                   (wire_types<double>), (wire_types<bf16>), (wire_types<fp16>),
                                   (wire_types<fp16, float>), (wire_types<fssdp::fp8_e4m3, float>),
                                   (wire_types<fssdp::fp8_e5m2, bf16>))) {
  using wire = typename TestType::wire;
  using master = typename TestType::master;
  auto const first = (sizeof(wire) * 10 + sizeof(master)) * 1'000'000;  // other instances for each
  support::for_random_instances(
      support::law_instances / 6 + 1,
      [](random_instance const& of) {
        auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
          return check_everything<wire, master>(comm, of);
        });
        auto gathered = 0.0;
        auto reduced = 0.0;
        auto wrong = support::differences{};
        for (auto const& of_rank : found) {
          gathered += of_rank.gathered_times_partials;
          reduced += of_rank.parameters_times_gradients;
          wrong += of_rank.wrong;
        }
        REQUIRE(wrong == 0);
        REQUIRE(gathered == reduced);
      },
      {}, first);
}
