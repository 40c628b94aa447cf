// SPDX-License-Identifier: Apache-2.0
/// A communicator beside a stream: which of them waits for the other, and that the host waits for
/// neither.
#include "fssdp/comm/cuda/cuda_side_stream.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <semaphore>
#include <thread>

#include "catch.hpp"
#include "peer/devices.hpp"
#include "support/needs.hpp"
#include "support/trained_on_devices.hpp"

using fssdp::peer_communicator;
using support::computing_stream;

namespace {

/// Gives the other stream time to come first if it does not wait, and waits for it if it loses
/// events.
void let_go_first(std::binary_semaphore& other, bool loses_event) {
  using std::chrono::milliseconds;
  (void)other.try_acquire_for(loses_event ? milliseconds{20'000} : milliseconds{50});
}

/// A number that the caller's stream writes and the communicator copies; what the copy is.
[[nodiscard]] int copied_by_lane(bool loses_event) {
  gpu_double::reset();
  return peer_tests::results_of({.ranks = 1}, [&](peer_communicator& comm) {
    auto from = std::vector{0};
    auto to = std::vector{0};
    auto copied = std::binary_semaphore{0};
    auto compute = computing_stream{};
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    if (loses_event) gpu_double::lose_waits_of(comm.stream());
    compute.enqueue([&] {
      let_go_first(copied, loses_event);
      from[0] = 1;
    });
    fssdp::submit(streamed, [&](auto& inner) {
      inner.copy(std::as_writable_bytes(std::span{to}), std::as_bytes(std::span{from}));
      cudaLaunchHostFunc(
          inner.stream(), [](void* of) { static_cast<std::binary_semaphore*>(of)->release(); },
          &copied);
    });
    fssdp::synchronize(streamed);
    compute.synchronize();
    return to[0];
  })[0];
}

/// A number that the communicator writes and the caller's stream reads after `await`; what it
/// reads.
[[nodiscard]] int read_behind_lane(int pieces_of_work, bool loses_event) {
  gpu_double::reset();
  return peer_tests::results_of({.ranks = 1}, [&](peer_communicator& comm) {
    struct late_write {
      int number = 0;
      std::binary_semaphore is_read{0};
      bool loses_event;
    };
    auto late = late_write{.loses_event = loses_event};
    auto seen = 0;
    auto compute = computing_stream{};
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    if (loses_event) gpu_double::lose_waits_of(compute.get());
    fssdp::submit(streamed, [&](auto& inner) {
      cudaLaunchHostFunc(
          inner.stream(),
          [](void* of) {
            auto& write = *static_cast<late_write*>(of);
            let_go_first(write.is_read, write.loses_event);
            write.number = 1;
          },
          &late);
    });
    auto const first = streamed.position();
    for (int i = 1; i < pieces_of_work; ++i) fssdp::submit(streamed, [](auto&) {});
    streamed.await(first);
    compute.enqueue([&] {
      seen = late.number;
      late.is_read.release();
    });
    compute.synchronize();
    fssdp::synchronize(streamed);
    return seen;
  })[0];
}

}  // namespace

TEST_CASE("a communicator runs after the work that its caller has enqueued") {
  REQUIRE(copied_by_lane(false) == 1);
}

TEST_CASE("the caller's stream waits for a position of the communicator, also for an old one") {
  for (auto const pieces : {1, 100}) REQUIRE(read_behind_lane(pieces, false) == 1);
}

TEST_CASE("a communicator that loses an event runs too early") {
  if (auto const lacks = support::lacks_tolerance_of_races(); !lacks.empty())
    return skip_test(lacks);
  REQUIRE(copied_by_lane(true) == 0);
}
TEST_CASE("a caller's stream that loses an event reads too early") {
  if (auto const lacks = support::lacks_tolerance_of_races(); !lacks.empty())
    return skip_test(lacks);
  REQUIRE(read_behind_lane(1, true) == 0);
}

TEST_CASE("the caller's stream goes on while the communicator works") {
  gpu_double::reset();
  auto const went_on = peer_tests::results_of({.ranks = 1}, [](peer_communicator& comm) {
    struct both {
      std::atomic<bool> has_computed = false;
      bool in_time = false;
    };
    auto state = both{};
    auto compute = computing_stream{};
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    fssdp::submit(streamed, [&](auto& inner) {
      cudaLaunchHostFunc(
          inner.stream(),
          [](void* of) {
            auto& seen = *static_cast<both*>(of);
            auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
            while (!seen.has_computed && std::chrono::steady_clock::now() < until)
              std::this_thread::yield();
            seen.in_time = seen.has_computed;
          },
          &state);
    });
    compute.enqueue([&] { state.has_computed = true; });
    compute.synchronize();
    fssdp::synchronize(streamed);
    return state.in_time;
  });
  REQUIRE(went_on == std::vector{true});
}

TEST_CASE("the host waits for no device in the iterations of a materializer") {
  gpu_double::reset();
  constexpr auto ranks = 4;
  auto meets = std::barrier{ranks};
  auto const waits = peer_tests::results_of({.ranks = ranks}, [&](peer_communicator& comm) {
    auto pinned = fssdp::cuda_pinned_memory{comm.rank()};
    auto model = support::toy_model{{.ranks = ranks}, comm.rank()};
    auto compute = computing_stream{};
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    auto layers = support::make_layers(
        streamed, model, {.replica_slots = 40, .partial_slots = 20, .memory = &pinned});
    meets.arrive_and_wait();
    auto const before = gpu_double::host_waits();
    meets.arrive_and_wait();
    support::train_behind(model, layers, [&](auto work) { compute.enqueue(std::move(work)); });
    meets.arrive_and_wait();
    auto const during = gpu_double::host_waits() - before;
    meets.arrive_and_wait();
    compute.synchronize();
    return during;
  });
  REQUIRE(waits == std::vector(ranks, 0));
}
