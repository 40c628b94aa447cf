// SPDX-License-Identifier: Apache-2.0
/// Ranks of a process group are lost, and the others go on in a group between them.
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/c10d.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/recovery/recover.hpp"
#include "support/mirrored_training.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::c10d_communicator;
using fssdp::rank_id;
using namespace std::chrono_literals;

namespace {

constexpr auto deadline = 1500ms;

/// Groups of some ranks, by which ranks these are and how many of them there have been.
class makers {
 public:
  makers(c10d_tests::store_pointer store, rank_id me, std::vector<c10d_tests::group_pointer>& made)
      : store_{std::move(store)}, me_{me}, made_{&made} {}

  [[nodiscard]] c10d_tests::group_pointer operator()(std::span<rank_id const> ranks) {
    auto name = std::string{"of"};
    auto mine = -1;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      name += " " + std::to_string(ranks[i].value());
      if (ranks[i] == me_) mine = static_cast<int>(i);
    }
    name += ", number " + std::to_string(made_->size());
    made_->push_back(c10d_tests::gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, store_),
                                            mine, static_cast<int>(ranks.size())));
    return made_->back();
  }

 private:
  c10d_tests::store_pointer store_;
  rank_id me_;
  std::vector<c10d_tests::group_pointer>* made_;
};

/// Calls work(comm) on every rank, each in a thread of its own; [rank] what it returns.
template <class Work>
[[nodiscard]] std::vector<std::string> said_by(int ranks, Work const& work) {
  auto const store = c10::make_intrusive<c10d::HashStore>();
  auto groups =
      std::vector<std::vector<c10d_tests::group_pointer>>(static_cast<std::size_t>(ranks));
  auto said = std::vector<std::string>(groups.size());
  auto all = std::vector<rank_id>{};
  for (auto const rank : fssdp::first_n<rank_id>(ranks)) all.push_back(rank);
  auto threads = std::vector<std::thread>{};
  for (auto const rank : all)
    threads.emplace_back([&, rank] {
      auto make = makers{store, rank, groups[rank.index()]};
      auto of_all = make(all);
      try {
        auto comm = c10d_communicator{
            of_all, {.deadline = deadline, .make_group_of = make, .store = store}};
        said[rank.index()] = work(comm);
      } catch (fssdp::error const& error) {
        said[rank.index()] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return said;
}

/// "n ranks, sum s" of the ranks of a communicator, each of which adds 10 and its number.
[[nodiscard]] std::string counted(c10d_communicator& comm) {
  auto const sum = fssdp::all_reduce(comm, std::array{10L + comm.rank().value()});
  return std::to_string(comm.size()) + " ranks, sum " + std::to_string(sum[0]);
}
/// Whether something fails that takes all ranks.
[[nodiscard]] bool fails(c10d_communicator& comm) {
  try {
    (void)counted(comm);
    return false;
  } catch (fssdp::transport_error const&) {
    return true;
  }
}

}  // namespace

TEST_CASE("over c10d the remaining ranks go on when ranks are lost, several times") {
  auto const said = said_by(4, [](c10d_communicator& comm) -> std::string {
    auto const me = comm.rank();
    (void)counted(comm);
    if (me == rank_id{1}) return "gone";
    if (!fails(comm)) return "nothing has failed";
    auto left = fssdp::survivors{comm};
    left.shrink();
    auto const first = counted(left.comm());
    if (me == rank_id{3}) return "gone, too, after " + first;
    if (!fails(left.comm())) return "nothing has failed the second time";
    left.shrink();
    auto copy = left.comm().duplicate();
    return first + "; " + counted(left.comm()) + "; " + counted(copy) + "; lost " +
           std::to_string(left.lost().size());
  });
  REQUIRE(said[1] == "gone");
  REQUIRE(said[3] == "gone, too, after 3 ranks, sum 33");
  for (auto const rank : {0U, 2U})
    REQUIRE(said[rank] == "3 ranks, sum 33; 2 ranks, sum 21; 2 ranks, sum 21; lost 2");
}

TEST_CASE("over c10d a rank that comes late, but in time, is not lost") {
  auto const said = said_by(3, [](c10d_communicator& comm) {
    std::this_thread::sleep_for(200ms * comm.rank().value());
    auto left = fssdp::survivors{comm};
    left.shrink();
    return counted(left.comm()) + "; lost " + std::to_string(left.lost().size());
  });
  for (auto const& words : said) REQUIRE(words == "3 ranks, sum 33; lost 0");
}

TEST_CASE("over c10d a rank that comes after the deadline gets an error that says so") {
  auto const said = said_by(3, [](c10d_communicator& comm) {
    if (comm.rank() == rank_id{2}) std::this_thread::sleep_for(2 * deadline);
    auto left = fssdp::survivors{comm};
    left.shrink();
    return counted(left.comm());
  });
  REQUIRE(said[0] == "2 ranks, sum 21");
  REQUIRE(said[1] == "2 ranks, sum 21");
  REQUIRE_THAT(said[2], mentions("rank 2 has been lost: the others have gone on without it"));
}

TEST_CASE("over c10d the state of a lost rank comes back from its mirror") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const three_each = fssdp::as_table(fssdp::block_layout{{.experts = 12, .ranks = 4}});
  auto const said = said_by(4, [&](c10d_communicator& comm) -> std::string {
    auto shard = support::trained_shard{three_each, comm.rank()};
    auto mirror =
        fssdp::mirrored_shard{three_each, fssdp::mirror_partners{topo}, comm.rank(), shard.state()};
    shard.step_to(5);
    mirror.write(comm, 5, shard.state());
    mirror.finish(comm);
    (void)counted(comm);  // all have mirrored
    if (comm.rank() == rank_id{1}) return "gone";
    if (!fails(comm)) return "nothing has failed";
    auto left = fssdp::survivors{comm};
    auto next = support::trained_shard{{{.ranks = 1}, {rank_id{0}}}, rank_id{0}};
    auto const now = fssdp::recover(
        left, mirror, fssdp::even_owners{},
        [&](fssdp::table_layout const& layout, rank_id rank) {
          next = support::trained_shard{layout, rank};
          return next.state();
        },
        topo);
    return now.step == 5 && next.wrong(5) == 0 && now.layout.owned(left.comm().rank()).size() == 4
               ? "right"
               : "other bits, or other owners";
  });
  for (auto const rank : {0U, 2U, 3U}) REQUIRE(said[rank] == "right");
}

TEST_CASE("a missing option that shrinking over c10d needs is an error that names it") {
  auto const refusal = [](auto call) -> std::string {
    try {
      call();
    } catch (fssdp::argument_error const& error) {
      return error.what();
    }
    return "nothing";
  };
  auto const said = c10d_tests::results_of(2, [&](c10d_tests::group_maker make) {
    auto comm = c10d_communicator{make(), {.deadline = deadline}};
    auto const other = std::vector{rank_id{1 - comm.rank().value()}};
    auto const me = std::vector{comm.rank()};
    return std::vector{refusal([&] { (void)comm.find_lost(); }),
                       refusal([&] { (void)comm.without(other); }),
                       refusal([&] { (void)comm.without(me); })};
  });
  for (auto const& of_rank : said) {
    REQUIRE_THAT(of_rank[0], mentions("c10d_options::store"));
    REQUIRE_THAT(of_rank[1], mentions("c10d_options::make_group_of"));
    REQUIRE_THAT(of_rank[2], mentions("among the ranks"));
  }
}
