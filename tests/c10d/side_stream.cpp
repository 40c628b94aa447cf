// SPDX-License-Identifier: Apache-2.0
/// A communicator beside torch's current stream: which of them waits for the other, and that the
/// host waits for neither. The device is a double whose streams are threads; what operators do is
/// tried on the CPU, which has no streams.
#include "c10d/late_device.hpp"  // ahead of torch's own headers

#include <ATen/ops/full.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/comm/c10d.hpp"
#include "support/communicator_extras.hpp"
#include "support/needs.hpp"

using c10d_tests::late_device;
using fssdp::rank_id;

namespace {

C10_REGISTER_GUARD_IMPL(PrivateUse1, late_device);

/// The only rank of a device. It copies on the current stream.
class lone_rank {
 public:
  using stream_type = fssdp::torch_current_stream;
  using memory_space = fssdp::device_memory;

  struct no_batch {
    void send(std::span<std::byte const>, rank_id) {}
    void recv(std::span<std::byte>, rank_id) {}
  };

  rank_id rank() const { return rank_id{0}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&& post) {
    auto batch = no_batch{};
    post(batch);
  }
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  void synchronize() { late_device::synchronize(); }
  void sum(fssdp::device_sums const&) {}
  void convert(fssdp::device_conversions const&) {}
  void copy(std::span<std::byte> to, std::span<std::byte const> from) {
    late_device::enqueue([to, from] { std::ranges::copy(from, to.begin()); });
  }
  std::span<std::byte> allocate(std::size_t) { return {}; }
  void free(std::span<std::byte>) {}
};

/// Gives the other stream time to come first if it does not wait, and waits for it if events are
/// lost.
void let_go_first(std::binary_semaphore& other) {
  using std::chrono::milliseconds;
  (void)other.try_acquire_for(late_device::loses_events ? milliseconds{20'000} : milliseconds{50});
}

/// A number that the caller's stream writes and the communicator copies; what the copy is.
[[nodiscard]] int copied_beside() {
  auto from = std::vector{0};
  auto to = std::vector{0};
  auto copied = std::binary_semaphore{0};
  auto comm = lone_rank{};
  auto beside = fssdp::on_side_stream(comm, late_device::device());
  late_device::enqueue([&] {
    let_go_first(copied);
    from[0] = 1;
  });
  fssdp::submit(beside, [&](lone_rank& inner) {
    inner.copy(std::as_writable_bytes(std::span{to}), std::as_bytes(std::span{from}));
    late_device::enqueue([&] { copied.release(); });
  });
  fssdp::synchronize(beside);
  late_device::synchronize();
  return to[0];
}

/// A number that the communicator writes and the caller's stream reads after `await`; what it
/// reads.
[[nodiscard]] int read_behind(int pieces_of_work) {
  auto number = 0;
  auto seen = 0;
  auto is_read = std::binary_semaphore{0};
  auto comm = lone_rank{};
  auto beside = fssdp::on_side_stream(comm, late_device::device());
  fssdp::submit(beside, [&](lone_rank&) {
    late_device::enqueue([&] {
      let_go_first(is_read);
      number = 1;
    });
  });
  auto const first = beside.position();
  for (int i = 1; i < pieces_of_work; ++i) fssdp::submit(beside, [](lone_rank&) {});
  beside.await(first);
  late_device::enqueue([&] {
    seen = number;
    is_read.release();
  });
  late_device::synchronize();
  fssdp::synchronize(beside);
  return seen;
}

/// While events are lost.
template <class Work>
[[nodiscard]] auto without_events(Work work) {
  late_device::loses_events = true;
  auto const found = work();
  late_device::loses_events = false;
  return found;
}

}  // namespace

TEST_CASE("a communicator of torch runs after the work that its caller has enqueued") {
  REQUIRE(copied_beside() == 1);
}

TEST_CASE("torch's current stream waits for a position, also for an old one") {
  for (auto const pieces : {1, 100}) REQUIRE(read_behind(pieces) == 1);
}

TEST_CASE("where torch's events are lost, streams run too early") {
  if (auto const lacks = support::lacks_tolerance_of_races(); !lacks.empty())
    return skip_test(lacks);
  REQUIRE(without_events([] { return copied_beside(); }) == 0);
  REQUIRE(without_events([] { return read_behind(1); }) == 0);
}

TEST_CASE("torch's current stream goes on while the communicator works, and the host does") {
  auto has_computed = std::atomic<bool>{false};
  auto comm = lone_rank{};
  auto beside = fssdp::on_side_stream(comm, late_device::device());
  auto in_time = std::atomic<bool>{false};
  fssdp::submit(beside, [&](lone_rank&) {
    late_device::enqueue([&] {
      auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
      while (!has_computed && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      in_time = has_computed.load();
    });
  });
  REQUIRE(beside.position() == 1);
  REQUIRE(!beside.has_run(1));
  late_device::enqueue([&] { has_computed = true; });
  late_device::synchronize();
  fssdp::synchronize(beside);
  REQUIRE(in_time);
  REQUIRE(beside.has_run(1));
}

TEST_CASE("the caller's current stream is restored, also after work that throws") {
  auto comm = lone_rank{};
  auto beside = fssdp::on_side_stream(comm, late_device::device());
  auto const here = fssdp::detail::torch_stream_of(late_device::device());
  auto there = here;
  beside.prepare(
      [&](lone_rank&) { there = fssdp::detail::torch_stream_of(late_device::device()); });
  REQUIRE(there == beside.stream());
  REQUIRE(there != here);
  REQUIRE_THROWS_AS(beside.submit([](lone_rank&) { throw std::runtime_error{"no"}; }),
                    std::runtime_error);
  REQUIRE(fssdp::detail::torch_stream_of(late_device::device()) == here);
  REQUIRE(beside.position() == 0);
}

TEST_CASE("torch's allocator knows of memory that is used on another stream") {
  auto comm = lone_rank{};
  auto beside = fssdp::on_side_stream(comm, late_device::device());
  auto numbers = std::array{1.0F, 2.0F};
  beside.keep(
      fssdp::detail::torch_view(numbers.data(), numbers.size(), at::kFloat, late_device::device()));
  REQUIRE(late_device::kept.first == beside.stream().id());
  REQUIRE(late_device::kept.second == numbers.data());
}

TEST_CASE("on the CPU all work has run when a call returns") {
  auto const extras = c10d_tests::results_of(1, [](c10d_tests::group_maker make) {
    auto comm = fssdp::c10d_device_communicator{make(), c10::kCPU};
    auto beside = fssdp::on_side_stream(comm, c10::kCPU);
    auto ran = false;
    beside.submit([&](auto&) { ran = true; });
    beside.await(beside.position());
    auto numbers = std::array{1.0F, 2.0F};
    beside.clear(std::as_writable_bytes(std::span{numbers}));
    auto const tensor = at::full({2}, 1.0F, at::kFloat);
    beside.keep(tensor);
    beside.synchronize();
    if (!ran || !beside.has_run(1) || numbers != std::array{0.0F, 0.0F})
      return std::vector<std::string>{"it has not"};
    return support::extras_of(beside);
  });
  REQUIRE(extras[0] == support::extras_in_readme("torch_side_stream"));
}
