// SPDX-License-Identifier: Apache-2.0
/// The central law of the library: <G x, y> = <x, G^T y>, over every wire and stream, and both
/// sides what a plain loop over the placement gives.
#include <cstdint>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
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

using fssdp::dtype;
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
template <class Comm, class Buffers>
void check(Comm& comm, Buffers& mine, finding& found) {
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

/// Everything a rank has to show: borrowed in the caller and received on a stream, or either in either.
enum class wires { two, all_four };
template <class Buffers>
[[nodiscard]] finding check_everything(thread_communicator& comm, Buffers mine, wires which) {
  auto found = finding{};
  auto bare = support::exchange_only{comm};
  check(comm, mine, found);
  {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(bare, stream);
    check(queued, mine, found);
  }
  if (which == wires::two) return found;
  check(bare, mine, found);
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(comm, stream);
  check(queued, mine, found);
  return found;
}

/// Requires the law on many instances of their own, with buffers that make(instance, rank) makes.
template <class Make>
void require_adjoint(int instances, std::uint64_t first, wires which, Make make) {
  support::for_random_instances(
      instances,
      [&](random_instance const& of) {
        auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
          return check_everything(comm, make(of, comm.rank()), which);
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

/// The type in which parameters and partial gradients travel, and that of their owners.
template <class T, class Master = T>
struct wire_types {
  using wire = T;
  using master = Master;
};

}  // namespace

TEMPLATE_TEST_CASE("<G x, y> = <x, G^T y>, exactly, over every wire and stream", "",
                   (wire_types<float>), (wire_types<fssdp::bf16, float>)) {
  using wire = typename TestType::wire;
  using master = typename TestType::master;
  auto const first = (sizeof(wire) * 10 + sizeof(master)) * 1'000'000;  // other instances for each
  require_adjoint(support::law_instances / 6 + 1, first, wires::all_four,
                  [](random_instance const& of, fssdp::rank_id rank) {
                    return rank_buffers<wire, master>{of, rank};
                  });
}

// Sums of small numbers are exact where gradients have these dtypes, not where they have fp8.
TEST_CASE("<G x, y> = <x, G^T y>, exactly, in whatever dtype experts travel and are owned") {
  auto first = std::uint64_t{1'000'000};
  for (auto const travels : support::dtypes_of_a_test())
    for (auto const master : {dtype::fp32, dtype::fp64, dtype::bf16, dtype::fp16}) {
      CAPTURE(fssdp::name_of(travels), fssdp::name_of(master));
      require_adjoint(support::law_instances / 25 + 1, first, wires::two,
                      [&](random_instance const& of, fssdp::rank_id rank) {
                        return support::any_rank_buffers{of, rank, travels, master};
                      });
      first += 1'000'000;
    }
}
