// SPDX-License-Identifier: Apache-2.0
/// Memory that all ranks open to each other, and errors of ranks that do not take part.
#include <chrono>

#include "catch.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;
using fssdp::nccl_memory;
using fssdp::nccl_registration;
using gpu_double::mutation;

namespace {

constexpr auto of_two = nccl_tests::world{.ranks = 2, .deadline = std::chrono::milliseconds{300}};
constexpr auto page = std::size_t{4096};

/// Two ranks register memory of NCCL's, as many pages as said, and exchange a byte within.
[[nodiscard]] std::vector<std::exception_ptr> register_and_exchange(
    std::array<std::size_t, 2> const& pages, bool expect_windows = true) {
  return nccl_tests::thrown_by(of_two, [&](nccl_communicator& comm) {
    auto const arena = nccl_memory{page * pages[comm.rank().index()], comm.rank()};
    auto const first = nccl_registration{comm, arena};
    auto const second = nccl_registration{comm, arena};
    if (!first.is_registered() || first.is_window() != expect_windows)
      throw std::runtime_error{"it is registered in another way"};
    auto const peer = fssdp::rank_id{1 - comm.rank().value()};
    comm.exchange([&](auto& batch) {
      batch.send(arena.bytes().first(1), peer);
      batch.recv(arena.bytes().last(1), peer);
    });
    comm.synchronize();
  });
}

}  // namespace

TEST_CASE("NCCL memory becomes a window, which is destroyed before its communicator") {
  gpu_double::reset({.only_device_memory = true});
  auto const before = gpu_double::live_allocations();
  for (auto const& thrown : register_and_exchange({1, 1})) REQUIRE(thrown == nullptr);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
  REQUIRE(gpu_double::live_allocations() == before);
}

TEST_CASE("where there are no windows each rank registers its memory alone") {
  gpu_double::reset({.windows = false});
  for (auto const& thrown : register_and_exchange({1, 1}, false)) REQUIRE(thrown == nullptr);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a rank that opens no window is caught, and awaited no longer than the deadline") {
  gpu_double::reset({.report_after = of_two.deadline / 3, .back_end = mutation::no_window});
  auto const thrown = register_and_exchange({1, 1});
  REQUIRE(support::is<fssdp::deadline_exceeded>(thrown[1]));
  REQUIRE_THAT(support::text(thrown[1]), mentions("ncclCommWindowRegister"));
  REQUIRE(gpu_double::violations() ==
          std::vector<std::string>{"unmatched: rank 1 opens a window, rank 0 does not"});
}

TEST_CASE("windows of different sizes are caught, and end both ranks") {
  gpu_double::reset();
  for (auto const& thrown : register_and_exchange({1, 2}))
    REQUIRE(support::is<fssdp::transport_error>(thrown));
  REQUIRE(gpu_double::violations().size() == 1);
  REQUIRE_THAT(gpu_double::violations().front(), mentions("a window of"));
}

TEST_CASE("a window to memory that is not NCCL's is caught") {
  gpu_double::reset();
  nccl_tests::on_devices({.ranks = 1}, [](nccl_communicator& comm) {
    auto const arena = fssdp::cuda_memory{page};
    auto window = ncclWindow_t{};
    (void)ncclCommWindowRegister(comm.handle(), arena.bytes().data(), page, &window,
                                 NCCL_WIN_COLL_SYMMETRIC);
  });
  REQUIRE(gpu_double::violations() ==
          std::vector<std::string>{"rank 0 opens a window to memory that is not NCCL's"});
}

TEST_CASE("a communicator that is closed with a window open is caught") {
  gpu_double::reset();
  nccl_tests::on_devices({.ranks = 1}, [](nccl_communicator& comm) {
    auto const arena = nccl_memory{page};
    auto const window = nccl_registration{comm, arena};
    comm.close();
  });
  REQUIRE(gpu_double::violations() ==
          std::vector<std::string>{"rank 0 is destroyed with a window open"});
}
