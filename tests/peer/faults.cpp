// SPDX-License-Identifier: Apache-2.0
/// Ranks that throw, leave, stall or come with another plan: every other rank names them in time,
/// and nobody reads what has been freed.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "catch.hpp"
#include "peer/devices.hpp"
#include "peer/everywhere_buffers.hpp"
#include "support/on_all_ranks.hpp"
#include "support/work_after_failure.hpp"

using fssdp::peer_communicator;
using fssdp::rank_id;
using peer_tests::everywhere_buffers;
using std::chrono::milliseconds;
using support::everywhere_plan;

namespace {

constexpr auto impatient = peer_tests::world{.ranks = 4, .deadline = milliseconds{400}};
constexpr auto failed_rank_of_all = rank_id{2};

struct end_of_ranks {
  std::vector<std::exception_ptr> thrown;
  milliseconds took{};
};

/// Some gathers and reductions, of which the failed rank breaks one by what misbehave(comm) does.
template <class Misbehave>
[[nodiscard]] end_of_ranks ends_of(fssdp::copied_by copies, Misbehave misbehave) {
  gpu_double::reset();
  auto const of = everywhere_plan{impatient.ranks};
  auto world = impatient;
  world.copies = copies;
  auto const start = std::chrono::steady_clock::now();
  auto thrown = peer_tests::thrown_by(world, [&](peer_communicator& comm) {
    auto const mine = std::make_unique<everywhere_buffers>(of, comm.rank());  // dies with the rank
    for (int turn = 0; turn < 4; ++turn) {
      if (turn == 2 && comm.rank() == failed_rank_of_all && misbehave(comm)) return;
      mine->gather_and_reduce(comm, of.plan);
    }
    comm.synchronize();
  });
  auto const end = std::chrono::steady_clock::now();
  return {std::move(thrown), std::chrono::duration_cast<milliseconds>(end - start)};
}

/// All but the failed rank have ended with a transport_error that names it.
void require_named(end_of_ranks const& ended) {
  for (std::size_t rank = 0; rank < ended.thrown.size(); ++rank) {
    if (rank == failed_rank_of_all.index()) continue;
    CAPTURE(rank, support::text(ended.thrown[rank]));
    REQUIRE(support::is<fssdp::transport_error>(ended.thrown[rank]));
    REQUIRE(support::failed_rank(ended.thrown[rank]) == failed_rank_of_all.value());
  }
  REQUIRE(ended.took < milliseconds{3000});
}

constexpr auto all_ways = {fssdp::copied_by::engines, fssdp::copied_by::kernels};

}  // namespace

TEST_CASE("a rank that throws between exchanges of devices is named by all others") {
  for (auto const copies : all_ways) {
    auto const ended = ends_of(copies, [](peer_communicator& comm) -> bool {
      comm.synchronize();  // its memory dies now
      throw std::runtime_error{"no more"};
    });
    require_named(ended);
    REQUIRE_THAT(support::text(ended.thrown[0]), mentions("no more"));
  }
}

TEST_CASE("a rank that throws while it reads lent device memory is named by all others") {
  gpu_double::reset();
  auto ended = end_of_ranks{};
  ended.thrown = peer_tests::thrown_by(impatient, [](peer_communicator& comm) {
    auto const bytes = std::vector<std::byte>(1);
    for (int turn = 0; turn < 3; ++turn)
      comm.lend(
          [&](auto& batch) {
            for (auto const peer : fssdp::first_n<rank_id>(comm.size())) {
              if (peer == comm.rank()) continue;
              batch.send(bytes, peer);
              batch.borrow(1, peer);
            }
          },
          [&](auto const&) {
            if (turn == 1 && comm.rank() == failed_rank_of_all)
              throw std::runtime_error{"seen enough"};
          });
    comm.synchronize();
  });
  require_named(ended);
  REQUIRE_THAT(support::text(ended.thrown[failed_rank_of_all.index()]), mentions("seen enough"));
}

TEST_CASE("a rank that leaves while devices await it is named by all others") {
  require_named(ends_of(fssdp::copied_by::engines, [](peer_communicator& comm) {
    comm.synchronize();
    return true;
  }));
}

TEST_CASE("a rank that stalls is named by all others when the deadline is over") {
  auto const ended = ends_of(fssdp::copied_by::kernels, [](peer_communicator&) {
    std::this_thread::sleep_for(3 * impatient.deadline);
    return false;
  });
  require_named(ended);
  REQUIRE(support::is<fssdp::transport_error>(ended.thrown[failed_rank_of_all.index()]));
}

TEST_CASE("devices in different rounds of a plan get an error") {
  gpu_double::reset();
  auto const thrown =
      peer_tests::thrown_by({.ranks = 2, .deadline = milliseconds{400}}, [](auto& comm) {
        auto byte = std::vector<std::byte>(1);
        comm.exchange([&](auto& batch) {
          fssdp::set_label(batch, {.plan = 5, .round = comm.rank().value()});
          batch.send(byte, rank_id{1 - comm.rank().value()});
          batch.recv(byte, rank_id{1 - comm.rank().value()});
        });
      });
  REQUIRE(thrown[0] != nullptr);
  REQUIRE(thrown[1] != nullptr);
  auto const disagree = [](auto const& of) { return support::is<fssdp::ranks_disagree>(of); };
  REQUIRE(std::ranges::count_if(thrown, disagree) >= 1);  // the other may be told by the first
}

TEST_CASE("synchronize distinguishes a stream that is stuck from one that makes progress") {
  gpu_double::reset();
  auto const stalls = [](void* time) {
    std::this_thread::sleep_for(*static_cast<milliseconds const*>(time));
  };
  for (auto const factor : {3, 0}) {
    auto time = factor * impatient.deadline;
    auto world = peer_tests::world{.ranks = 2};
    if (factor != 0) world.deadline = impatient.deadline;
    auto const thrown = peer_tests::thrown_by(world, [&](peer_communicator& comm) {
      auto const memory = fssdp::cuda_memory{2, comm.rank()};  // of hosts, CUDA may wait
      auto const peer = rank_id{1 - comm.rank().value()};
      if (comm.rank() == rank_id{1}) cudaLaunchHostFunc(comm.stream(), stalls, &time);
      comm.exchange([&](auto& batch) {
        if (comm.rank() == rank_id{1}) batch.send(memory.bytes().first(1), peer);
        if (comm.rank() == rank_id{0}) batch.recv(memory.bytes().last(1), peer);
      });
      try {
        comm.synchronize();
      } catch (...) {
        cudaStreamSynchronize(comm.stream());  // its memory dies now
        throw;
      }
    });
    REQUIRE(support::is<fssdp::deadline_exceeded>(thrown[0]) == (factor != 0));
    if (factor != 0) REQUIRE(support::failed_rank(thrown[0]) == 1);
    if (factor != 0) REQUIRE_THAT(support::text(thrown[0]), mentions("awaits rank 1 in exchange"));
  }
}

TEST_CASE("a rank among devices that has failed says so again and again") {
  gpu_double::reset();
  auto const thrown = peer_tests::thrown_by({.ranks = 2}, [](auto& comm) {
    if (comm.rank() == rank_id{1}) return;
    auto byte = std::vector<std::byte>(1);
    auto const receive = [&] { comm.exchange([&](auto& batch) { batch.recv(byte, rank_id{1}); }); };
    try {
      receive();
    } catch (fssdp::transport_error const&) {
    }
    if (!comm.has_failed()) throw std::runtime_error{"not failed"};
    try {
      receive();
    } catch (fssdp::poisoned_stream const&) {
      comm.synchronize();
    }
  });
  REQUIRE(support::is<fssdp::peer_failed>(thrown[0]));
  REQUIRE(thrown[1] == nullptr);
}

TEST_CASE("a rank among devices that has failed enqueues nothing") {
  gpu_double::reset();
  auto done = std::string{"nobody has failed"};
  (void)peer_tests::thrown_by({.ranks = 2, .deadline = milliseconds{200}}, [&](auto& comm) {
    if (comm.rank() == rank_id{1}) return;
    auto byte = std::vector<std::byte>(1);
    try {
      comm.exchange([&](auto& batch) { batch.recv(byte, rank_id{1}); });
    } catch (fssdp::transport_error const&) {
      done = support::work_after_failure(comm);
    }
  });
  REQUIRE(done == "");
}

TEST_CASE("a world of devices is used again after a failure") {
  gpu_double::reset();
  auto const of = everywhere_plan{3};
  auto world = fssdp::peer_world{peer_tests::options_of({.ranks = 3})};
  REQUIRE_THROWS_WITH(world.run([](auto&) { throw std::runtime_error{"once"}; }), "once");
  auto right = std::atomic{0};
  world.run([&](peer_communicator& comm) {
    auto mine = everywhere_buffers{of, comm.rank()};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
    right += mine.gradients_are(static_cast<float>(3 * (comm.rank().value() + 1))) ? 1 : 0;
  });
  REQUIRE(right == 3);
}
