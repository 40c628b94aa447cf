// SPDX-License-Identifier: Apache-2.0
/// Wherever a rank throws, leaves or stalls in a gather, a reduction or a dispatch, every other
/// rank names it, nobody hangs, and nobody reads the buffers and the scratch that die with it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/token/dispatch.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/process_threads.hpp"
#include "support/rank_buffers.hpp"
#include "support/scheduled_plan.hpp"

using fssdp::fault;
using fssdp::fault_kind;
using fssdp::fault_moment;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::random_instance;

namespace {

constexpr auto instances = support::law_instances / 10;
constexpr auto up_to_six_ranks = support::size_limits{.ranks = 6, .nodes = 3, .experts = 12};
constexpr auto moments =
    std::array{fault_moment::before_exchange, fault_moment::in_post, fault_moment::behind_post,
               fault_moment::in_visit, fault_moment::behind_exchange};

/// Over what the collectives run.
enum class wire { lends, copies, queued };

/// What all ranks do together.
struct program {
  random_instance of;
  fssdp::block_layout token_layout;
  fssdp::token_counts tokens;
  bool sends_tokens;
  bool codes;

  explicit program(std::uint64_t seed) : program{seed, support::dice{seed + 1'000'000}} {}

 private:
  program(std::uint64_t seed, support::dice draw)
      : of{draw.chance(50) ? random_instance{seed, up_to_six_ranks}
                           : support::relayed_instance(seed, up_to_six_ranks)},
        token_layout{{.experts = 3, .ranks = of.plan.ranks()}},
        tokens{of.plan.ranks(), 3, random_tokens(draw, of.plan.ranks() * 3)},
        sends_tokens{draw.chance(30)},
        codes{draw.chance(50)} {}

  static std::vector<std::uint64_t> random_tokens(support::dice& draw, int count) {
    auto tokens = std::vector<std::uint64_t>{};
    for (int i = 0; i < count; ++i)
      tokens.push_back(static_cast<std::uint64_t>(draw.between(0, 3)));
    return tokens;
  }
};

/// The memory of one rank.
struct rank_memory {
  bool sends_tokens;
  bool codes;
  support::rank_buffers<float> experts;
  fssdp::token_plan route;
  std::vector<int> sent = std::vector<int>(route.sent_rows());
  std::vector<int> received = std::vector<int>(route.received_rows());

  rank_memory(program const& all, rank_id me)
      : sends_tokens{all.sends_tokens},
        codes{all.codes},
        experts{all.of, me},
        route{all.tokens, fssdp::placement{all.token_layout}, me} {}
};

/// A forward and a backward pass, then a sum that needs everybody, so that nobody gets away.
template <class Comm>
void train(Comm& comm, rank_memory& mine) {
  auto const& plan = mine.experts.of.plan;
  auto const links = fssdp::coded_links{fssdp::int8_codec{}, fssdp::link_class::all};
  if (mine.codes)
    fssdp::sparse_all_gather(comm, plan, mine.experts.shard, mine.experts.in_one_piece, links);
  else
    fssdp::sparse_all_gather(comm, plan, mine.experts.shard, mine.experts.replicas);
  if (mine.sends_tokens) {
    auto const rows = [](std::vector<int>& of) {
      return fssdp::rows_view<int>{of.data(), of.size(), 1};
    };
    fssdp::dispatch(comm, mine.route, rows(mine.sent), rows(mine.received));
    fssdp::combine(comm, mine.route, rows(mine.received), rows(mine.sent));
  }
  if (mine.codes)
    fssdp::sparse_reduce_scatter(comm, plan, mine.experts.partials, mine.experts.gradients, links,
                                 mine.experts.in_one_piece);
  else
    fssdp::sparse_reduce_scatter(comm, plan, mine.experts.partials, mine.experts.gradients);
  (void)fssdp::all_reduce(comm, std::vector{1});
}

/// What a rank does, with a fault; returns how many exchanges there were.
std::uint64_t train_with(fault const& given, wire over, thread_communicator& comm,
                         program const& all) {
  auto mine = rank_memory{all, comm.rank()};
  auto breaks = fssdp::faulty{comm, given};
  auto counted = fssdp::counting{breaks};
  try {
    if (over == wire::lends) train(counted, mine);
    if (over == wire::copies) {
      auto bare = support::exchange_only{counted};
      train(bare, mine);
    }
    if (over == wire::queued) {
      auto stream = fssdp::host_stream{};
      auto queued = fssdp::on_stream(counted, stream);
      try {
        train(queued, mine);
      } catch (fssdp::poisoned_stream const&) {  // it failed while there was work to enqueue
        queued.synchronize();                    // throws the reason
      }
    }
  } catch (fssdp::rank_left const&) {
  }
  return counted.counts().exchanges;
}

/// What is wrong with the end of a run in which one rank had a fault; empty if nothing is.
/// In the last exchange, a rank may be through before another breaks down.
[[nodiscard]] std::string complaint(support::fallout const& result, int failed_rank,
                                    fault const& given, int exchanges) {
  auto const late = given.exchange == exchanges && (given.moment == fault_moment::in_visit ||
                                                    given.moment == fault_moment::behind_exchange);
  auto const throws = given.kind == fault_kind::throws;
  for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank) {
    auto const& error = result.of_rank[rank];
    auto const is_failed_rank = static_cast<int>(rank) == failed_rank;
    auto const names_it = support::failed_rank(error) == failed_rank;
    auto const right = is_failed_rank && throws ? support::is<fssdp::injected_fault>(error)
                       : is_failed_rank         ? error == nullptr || names_it
                                                : names_it || (late && error == nullptr);
    if (!right) return "rank " + std::to_string(rank) + ": '" + support::text(error) + "'";
  }
  auto const alone = result.of_rank.size() == 1;
  auto const right = throws ? support::is<fssdp::injected_fault>(result.of_run)
                            : support::failed_rank(result.of_run) == failed_rank ||
                                  ((late || alone) && result.of_run == nullptr);
  return right ? "" : "run: '" + support::text(result.of_run) + "'";
}

/// How many exchanges a rank makes in all of it.
[[nodiscard]] int exchanges_of(program const& all, wire over = wire::lends) {
  auto const counts = support::on_all_ranks(all.of.plan.ranks(), [&](thread_communicator& comm) {
    return train_with({}, over, comm, all);
  });
  return static_cast<int>(counts.front());
}

/// One rank stalls, all others end, the last of them releases it. What is wrong; empty if nothing.
[[nodiscard]] std::string stall_somewhere(std::uint64_t seed, std::chrono::milliseconds deadline) {
  auto const all = program{seed};
  auto draw = support::dice{seed};
  auto const ranks = all.of.plan.ranks();
  auto const failed_rank = draw.between(0, ranks - 1);
  auto gate = fssdp::stall_gate{};
  auto const moment = draw.one_of(std::vector(moments.begin(), moments.end()));
  // A rank does not end while another reads its memory: so nobody must stall over lent memory.
  auto const over = moment == fault_moment::in_visit ? wire::copies : wire{draw.between(0, 2)};
  auto const exchanges = exchanges_of(all, over);
  auto const given = fault{.kind = fault_kind::stalls,
                           .exchange = draw.between(1, exchanges),
                           .moment = moment,
                           .gate = &gate};
  auto others = std::atomic{ranks - 1};
  if (others == 0) gate.release();
  auto world = fssdp::thread_world{{.ranks = ranks, .deadline = deadline}};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{failed_rank}) {
      train_with(given, over, comm, all);
      return;
    }
    auto failure = std::exception_ptr{};
    try {
      train_with({}, over, comm, all);
    } catch (...) {
      failure = std::current_exception();
    }
    if (--others == 0) gate.release();
    if (failure) std::rethrow_exception(failure);
  });
  auto const found = complaint(result, failed_rank, given, exchanges);
  if (found.empty()) return {};
  return "seed " + std::to_string(seed) + ", exchange " + std::to_string(given.exchange) +
         ", moment " + std::to_string(static_cast<int>(given.moment)) + ", " + found;
}

}  // namespace

TEST_CASE("wherever a rank throws or leaves, every other rank names it") {
  auto const threads_before = support::process_threads();
  for (std::uint64_t seed = 1; seed <= instances; ++seed) {
    auto const all = program{seed};
    auto draw = support::dice{seed};
    auto world = fssdp::thread_world{all.of.plan.ranks()};
    auto const over = wire{draw.between(0, 2)};
    auto const exchanges = exchanges_of(all, over);
    auto const after = [&](int at) {  // of many exchanges about twelve, the last one among them
      auto const next = at + draw.between(1, 1 + (exchanges > 12 ? exchanges / 6 : 0));
      return at < exchanges ? std::min(next, exchanges) : next;
    };
    for (int at = 1; at <= exchanges; at = after(at))
      for (auto const moment : moments)
        for (auto const kind : {fault_kind::throws, fault_kind::leaves}) {
          auto const given = fault{.kind = kind, .exchange = at, .moment = moment};
          auto const failed_rank = draw.between(0, world.size() - 1);
          auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
            train_with(comm.rank() == rank_id{failed_rank} ? given : fault{}, over, comm, all);
          });
          CAPTURE(seed, failed_rank, kind, at, moment, over);
          REQUIRE(complaint(result, failed_rank, given, exchanges) == "");
        }
  }
  REQUIRE(support::settled_process_threads(threads_before) == threads_before);
}

TEST_CASE("wherever a rank stalls, every other rank names it and ends without it") {
  auto const threads_before = support::process_threads();
  auto complaints = std::vector<std::string>(instances);
  auto next = std::atomic<std::size_t>{0};
  {
    auto drivers = std::vector<std::jthread>{};  // threads that wait cost nothing
    for (int driver = 0; driver < 16; ++driver)
      drivers.emplace_back([&] {
        for (auto i = next++; i < complaints.size(); i = next++) {
          complaints[i] = stall_somewhere(i + 1, std::chrono::milliseconds{250});
          if (complaints[i].empty()) continue;  // else another was too slow, too: it is asked again
          complaints[i] = stall_somewhere(i + 1, std::chrono::seconds{10});
        }
      });
  }
  REQUIRE(complaints == std::vector<std::string>(instances));
  REQUIRE(support::settled_process_threads(threads_before) == threads_before);
}
