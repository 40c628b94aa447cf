// SPDX-License-Identifier: Apache-2.0
/// Ranks that are not in the same collective get errors that name each other.
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

/// How one rank sees an exchange with the other.
struct view {
  fssdp::batch_label label = {};
  std::vector<std::size_t> sends = {4};
  std::vector<std::size_t> receives = {4};
  int exchanges_before = 0;
};

/// Two ranks exchange under their views, a third looks on.
template <bool Lends>
[[nodiscard]] support::fallout meet(view const& of_0, view const& of_1) {
  auto world = fssdp::thread_world{3};
  return support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{2}) {  // waits for both until the deadline
      auto byte = std::byte{};
      comm.exchange([&](auto& batch) {
        batch.recv({&byte, 1}, rank_id{0});
        batch.recv({&byte, 1}, rank_id{1});
      });
      return;
    }
    auto const& mine = comm.rank() == rank_id{0} ? of_0 : of_1;
    auto const peer = rank_id{1 - comm.rank().value()};
    auto out = std::vector<std::byte>(64);
    auto in = std::vector<std::byte>(64);
    for (int i = 0; i < mine.exchanges_before; ++i) comm.exchange([](auto&) {});
    auto const send = [&](auto& batch) {
      set_label(batch, mine.label);
      for (auto const size : mine.sends) batch.send(std::span{out}.first(size), peer);
    };
    if constexpr (Lends)
      comm.lend(
          [&](auto& batch) {
            send(batch);
            for (auto const size : mine.receives) batch.borrow(size, peer);
          },
          [](auto const&) {});
    else
      comm.exchange([&](auto& batch) {
        send(batch);
        for (auto const size : mine.receives) batch.recv(std::span{in}.first(size), peer);
      });
  });
}

/// Both ranks blame each other, one of them because it saw it with its own eyes; the third learns
/// of one of the two.
template <bool Lends>
void find_out(view const& of_0, view const& of_1, char const* a, char const* b) {
  auto const result = meet<Lends>(of_0, of_1);
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
  REQUIRE((support::is<fssdp::ranks_disagree>(result.of_rank[0]) ||
           support::is<fssdp::ranks_disagree>(result.of_rank[1])));
  REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[2]));
  REQUIRE((support::failed_rank(result.of_rank[2]) == 0 ||
           support::failed_rank(result.of_rank[2]) == 1));
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  for (auto const& error : result.of_rank)
    REQUIRE_THAT(support::text(error), mentions("disagree") && mentions(a) && mentions(b));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("ranks in different collectives name each other", "", ((bool Lends), Lends),
                       false, true) {
  SECTION("another plan") {
    find_out<Lends>({.label = {0xaaa, 0}}, {.label = {0xbbb, 0}}, "plan aaa", "plan bbb");
  }
  SECTION("another round of the same plan") {
    find_out<Lends>({.label = {0xaaa, 0}}, {.label = {0xaaa, 1}}, "round 0", "round 1");
  }
  SECTION("rounds are counted in tens, plans are hashes") {
    find_out<Lends>({.label = {0xaaa, 49}}, {.label = {0xaaa, 10}}, "round 49 of plan aaa",
                    "round 10 of plan aaa");
  }
  SECTION("another exchange") {
    find_out<Lends>({.exchanges_before = 2}, {.exchanges_before = 1}, "exchange", "there");
  }
  SECTION("other sizes") {
    find_out<Lends>({.sends = {8}, .receives = {8}}, {}, "message 0", "bytes");
  }
  SECTION("other sizes behind equal ones") {
    find_out<Lends>({.sends = {4, 16}, .receives = {4, 8}}, {.sends = {4, 4}, .receives = {4, 4}},
                    "message 1", "bytes");
  }
  SECTION("another number of messages") {
    find_out<Lends>({.sends = {4, 4}, .receives = {4, 4}}, {}, "messages expected", "sent");
  }
  SECTION("another plan, and both only send") {
    find_out<Lends>({.label = {0xaaa, 0}, .receives = {}}, {.label = {0xbbb, 0}, .receives = {}},
                    "plan aaa", "plan bbb");
  }
  SECTION("another number of messages, and both only send") {
    find_out<Lends>({.receives = {}}, {.receives = {}}, "0 messages expected", "sent");
  }
}
