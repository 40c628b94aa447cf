// SPDX-License-Identifier: Apache-2.0
/// The faulty adaptor fails at the chosen moment, in the chosen way, and never otherwise.
#include "fssdp/comm/faulty.hpp"

#include <atomic>
#include <latch>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::fault;
using fssdp::fault_kind;
using fssdp::fault_moment;
using fssdp::faulty;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::communicator_archetype;

static_assert(fssdp::communicator<faulty<communicator_archetype>>);
static_assert(!fssdp::lending_communicator<faulty<communicator_archetype>>);
static_assert(fssdp::lending_communicator<faulty<thread_communicator>>);

namespace {

/// A moment, how an error names it, and how far an exchange and a lend get before it: "p" is the
/// post, "v" the visit.
struct expectation {
  fault_moment moment;
  char const* name;
  char const* of_exchange;
  char const* of_lend;
};
auto const expectations =
    std::vector<expectation>{{fault_moment::before_exchange, "before exchange 2", "", ""},
                             {fault_moment::in_post, "in the post of exchange 2", "", ""},
                             {fault_moment::behind_post, "behind the post of exchange 2", "p", "p"},
                             {fault_moment::in_visit, "in the visit of exchange 2", "p", "p"},
                             {fault_moment::behind_exchange, "behind exchange 2", "p", "pv"}};

/// One exchange, or one lend, with a record of what it calls.
template <class Comm>
void call(Comm& comm, int lends, std::string& record) {
  auto const post = [&](auto&) { record += "p"; };
  if (lends == 1)
    comm.lend(post, [&](auto const&) { record += "v"; });
  else
    comm.exchange(post);
}

/// The calls of a rank alone whose second exchange breaks, and what comes out of each of three.
template <class Error>
void check_thrown(fault_kind kind, char const* does) {
  auto const lends = GENERATE(0, 1);
  for (auto const& expected : expectations) {
    CAPTURE(lends, expected.name);
    auto records = std::vector<std::string>(3);
    auto errors = std::vector<std::exception_ptr>(3);
    fssdp::thread_world{1}.run([&](thread_communicator& comm) {
      auto breaks = faulty{comm, {.kind = kind, .exchange = 2, .moment = expected.moment}};
      for (std::size_t i = 0; i < 3; ++i) try {
          call(breaks, lends, records[i]);
        } catch (...) {
          errors[i] = std::current_exception();
          break;  // a communicator that has failed is of no more use
        }
    });
    auto const whole = std::string{lends == 1 ? "pv" : "p"};
    REQUIRE(errors[0] == nullptr);
    REQUIRE(records == std::vector<std::string>{
                           whole, lends == 1 ? expected.of_lend : expected.of_exchange, ""});
    REQUIRE(support::is<Error>(errors[1]));
    REQUIRE(support::text(errors[1]) ==
            std::string{"rank 0 "} + does + " on purpose " + expected.name);
  }
}

}  // namespace

TEST_CASE("a rank throws at the chosen moment and says when that was") {
  check_thrown<fssdp::injected_fault>(fault_kind::throws, "fails");
}

TEST_CASE("a rank leaves at the chosen moment by an exception that is no fault") {
  check_thrown<fssdp::rank_left>(fault_kind::leaves, "leaves");
  STATIC_REQUIRE(!std::is_base_of_v<fssdp::injected_fault, fssdp::rank_left>);
}

TEST_CASE("a rank that leaves ends without an error, and ranks that await it get one") {
  for (auto const& expected : expectations) {
    CAPTURE(expected.name);
    auto world = fssdp::thread_world{3};
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      auto const exchange = comm.rank() == rank_id{2} ? 2 : 0;
      auto leaves = faulty{
          comm, {.kind = fault_kind::leaves, .exchange = exchange, .moment = expected.moment}};
      try {
        auto all = std::vector<int>(3);
        for (int turn = 0; turn < 3; ++turn) fssdp::all_gather(leaves, std::vector{turn}, all);
      } catch (fssdp::rank_left const&) {
      }
    });
    REQUIRE(result.of_rank[2] == nullptr);
    for (std::size_t rank : {0U, 1U}) {
      REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
      REQUIRE(support::failed_rank(result.of_rank[rank]) == 2);
    }
  }
}

TEST_CASE("ranks that share a gate stall at the chosen moment, are released, and go on") {
  auto const lends = GENERATE(0, 1);
  for (auto const& expected : expectations) {
    CAPTURE(lends, expected.name);
    auto gate = fssdp::stall_gate{};
    auto before_the_gate = std::latch{2};
    auto released = std::atomic{false};
    auto too_early = std::atomic{0};
    auto records = std::vector<std::string>(3);
    fssdp::thread_world{3}.run([&](thread_communicator& comm) {
      if (comm.rank() == rank_id{2}) {
        before_the_gate.wait();
        released = true;
        gate.release();
        return;
      }
      auto& record = records[comm.rank().index()];
      auto stalls = faulty{
          comm,
          {.kind = fault_kind::stalls, .exchange = 2, .moment = expected.moment, .gate = &gate}};
      call(stalls, lends, record);
      record += " ";
      before_the_gate.count_down();
      call(stalls, lends, record);
      if (!released) ++too_early;
    });
    auto const whole = std::string{lends == 1 ? "pv" : "p"};
    REQUIRE(records == std::vector{whole + " " + whole, whole + " " + whole, std::string{}});
    REQUIRE(too_early == 0);
  }
}

TEST_CASE("without a fault nothing changes") {
  auto const counts = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto never = faulty{comm, {.exchange = 0, .moment = fault_moment::in_post}};
    auto plain = fssdp::counting{comm};
    auto through = fssdp::counting{never};
    auto const talk = [](auto& streamed) {
      auto all = std::vector<int>(3);
      fssdp::all_gather(streamed, std::vector{7}, all);
      auto const mine = all.front();
      auto const peer = rank_id{(streamed.rank().value() + 1) % 3};
      auto const other = rank_id{(streamed.rank().value() + 2) % 3};
      streamed.lend(
          [&](auto& batch) {
            set_label(batch, {.plan = 5, .round = 1});
            batch.send(std::as_bytes(std::span{&mine, 1}), peer);
            batch.borrow(sizeof(int), other);
          },
          [](auto const&) {});
    };
    talk(plain);
    talk(through);
    return std::pair{plain.counts(), through.counts()};
  });
  for (auto const& [plain, through] : counts) {
    REQUIRE(plain == through);
    REQUIRE(through.exchanges == 2);
    REQUIRE(through.bytes_borrowed == sizeof(int));
  }
}

TEST_CASE("a rank calls the given function at the chosen moment, and goes on") {
  static auto record = std::string{};
  record.clear();
  auto comm = communicator_archetype{rank_id{0}};
  auto acts = faulty{comm,
                     {.kind = fault_kind::acts,
                      .exchange = 2,
                      .moment = fssdp::fault_moment::behind_post,
                      .act = [] { record += "!"; }}};
  for (int turn = 0; turn < 3; ++turn) acts.exchange([](auto&) { record += "p"; });
  REQUIRE(record == "pp!p");
}

TEST_CASE("an impossible fault is refused") {
  auto comm = communicator_archetype{rank_id{0}};
  auto const make = [&](fault const& of) { return faulty{comm, of}; };
  REQUIRE_THROWS_WITH(make({.exchange = -1}), mentions("exchange is -1") && mentions("1 or more"));
  REQUIRE_THROWS_WITH(make({.kind = fault_kind::stalls, .exchange = 1}),
                      mentions("stalls without a gate"));
  REQUIRE_THROWS_AS(make({.kind = fault_kind::stalls}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make({.kind = fault_kind::acts}), mentions("acts without a function"));
}
