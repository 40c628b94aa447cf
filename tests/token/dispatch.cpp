// SPDX-License-Identifier: Apache-2.0
/// Rows go to the experts and come back: every one, to the right place, over every wire.
#include "fssdp/token/dispatch.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/allocation_counter.hpp"
#include "support/communicator_archetype.hpp"
#include "support/device_archetype.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/naive_routing.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_counts.hpp"
#include "support/refusal.hpp"
#include "support/small_integers.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::row_order;
using fssdp::row_orders;
using fssdp::rows_view;
using fssdp::thread_communicator;
using fssdp::token_counts;
using fssdp::token_options;
using fssdp::token_plan;
using support::random_instance;
using support::refuses;

namespace {

using matrix = std::vector<int>;  // row after row

/// What token number `n` of a rank for an expert carries in column i.
[[nodiscard]] int carried(rank_id source, expert_id expert, int n, int i) {
  return ((source.value() * 64 + expert.value()) * 32 + n) * 4 + i;
}

/// A row that a rank sends or gets: the n-th token of the source for the expert.
struct moved_row {
  rank_id peer;
  expert_id expert;
  int n;
};

/// Rows that are listed by expert and peer, in another order, if that is wanted.
[[nodiscard]] std::vector<moved_row> sorted(std::vector<moved_row> rows, row_order order) {
  if (order == row_order::by_rank) std::ranges::stable_sort(rows, {}, &moved_row::peer);
  return rows;
}

/// All rows that a rank sends, as they must lie.
[[nodiscard]] matrix rows_of(random_instance const& of, token_counts const& counts, rank_id rank,
                             int width, row_order order) {
  auto sent = std::vector<moved_row>{};
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (int n = 0; auto const to : support::naive_receivers(
                        of.where, of.topo, rank, expert, static_cast<int>(counts(rank, expert))))
      sent.push_back({to, expert, n++});
  auto rows = matrix{};
  for (auto const& row : sorted(std::move(sent), order))
    for (int i = 0; i < width; ++i) rows.push_back(carried(rank, row.expert, row.n, i));
  return rows;
}

/// What must arrive at a rank, as it must lie.
[[nodiscard]] matrix arriving_at(random_instance const& of, token_counts const& counts,
                                 rank_id rank, int width, row_order order) {
  auto received = std::vector<moved_row>{};
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (auto const source : fssdp::first_n<rank_id>(counts.ranks()))
      for (int n = 0;
           auto const to : support::naive_receivers(of.where, of.topo, source, expert,
                                                    static_cast<int>(counts(source, expert)))) {
        if (to == rank) received.push_back({source, expert, n});
        ++n;
      }
  auto rows = matrix{};
  for (auto const& row : sorted(std::move(received), order))
    for (int i = 0; i < width; ++i) rows.push_back(carried(row.peer, row.expert, row.n, i));
  return rows;
}

/// All rows of a rank, by expert.
[[nodiscard]] matrix rows_of(token_counts const& counts, rank_id rank, int width) {
  auto rows = matrix{};
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (int n = 0; n < static_cast<int>(counts(rank, expert)); ++n)
      for (int i = 0; i < width; ++i) rows.push_back(carried(rank, expert, n, i));
  return rows;
}

constexpr auto all_orders = std::array{row_orders{row_order::by_expert, row_order::by_expert},
                                       row_orders{row_order::by_rank, row_order::by_expert},
                                       row_orders{row_order::by_expert, row_order::by_rank},
                                       row_orders{row_order::by_rank, row_order::by_rank}};
constexpr auto always = std::numeric_limits<std::size_t>::max();

/// The memory of one rank.
struct rank_rows {
  std::size_t width;
  matrix tokens;    // [sent, width]
  matrix received;  // [received, width]
  matrix returned;  // [sent, width]

  rank_rows(token_plan const& plan, matrix sent, int columns)
      : width{static_cast<std::size_t>(columns)},
        tokens{std::move(sent)},
        received(plan.received_rows() * width, -1),
        returned(plan.sent_rows() * width, -1) {}

  [[nodiscard]] rows_view<int> view(matrix& rows) const {
    return {rows.data(), rows.size() / width, width};
  }
  [[nodiscard]] rows_view<int const> view(matrix const& rows) const {
    return {rows.data(), rows.size() / width, width};
  }
};

/// What a dispatch of rows of two ints must exchange.
[[nodiscard]] fssdp::exchange_counts expected_counts(token_plan const& plan,
                                                     std::size_t pack_below) {
  auto counts = fssdp::exchange_counts{.exchanges = 1};
  auto const count = [&](std::span<fssdp::token_segment const> list, rank_id peer,
                         std::uint64_t& messages, std::uint64_t& bytes) {
    auto segments = std::size_t{0};
    auto sum = std::size_t{0};
    for (auto const& s : list) {
      segments += s.peer == peer ? 1U : 0U;
      sum += s.peer == peer ? s.rows * 2 * sizeof(int) : 0U;
    }
    if (segments == 0) return;
    messages += sum / segments < pack_below ? 1 : segments;
    bytes += sum;
  };
  for (auto const peer : fssdp::first_n<rank_id>(plan.ranks())) {
    if (peer == plan.rank()) continue;
    count(plan.sends(), peer, counts.messages_sent, counts.bytes_sent);
    count(plan.receives(), peer, counts.messages_received, counts.bytes_received);
  }
  return counts;
}

struct cost_found {
  fssdp::exchange_counts counts;
  std::optional<token_plan> plan;
  long allocations = 0;
  std::size_t packed = 0;  // bytes of scratch
};

/// There and back: what is not where it should be.
template <class Comm>
[[nodiscard]] support::differences goes_wrong(Comm& comm, token_plan const& plan,
                                              matrix const& sent, matrix const& expected, int width,
                                              std::size_t pack_below) {
  auto scratch = fssdp::scratch_memory{};
  auto const how = token_options{.pack_below = pack_below, .scratch = &scratch};
  auto rows = rank_rows{plan, sent, width};
  auto const& tokens = rows.tokens;
  fssdp::dispatch(comm, plan, rows.view(tokens), rows.view(rows.received), how);
  fssdp::combine(comm, plan, rows.view(std::as_const(rows.received)), rows.view(rows.returned),
                 how);
  fssdp::synchronize(comm);
  auto const me = comm.rank();
  return support::differences_of(rows.received, expected, "rank ", me, ", dispatched") +
         support::differences_of(rows.returned, sent, "rank ", me, ", combined") +
         support::differences_of(tokens, sent, "rank ", me, ", sent");
}

}  // namespace

TEST_CASE("rows arrive in their order, and combine brings each back to its place") {
  auto seed = std::uint64_t{0};
  support::for_random_instances(support::law_instances / 20 + 1, [&](random_instance const& of) {
    auto const counts = support::random_counts(of, ++seed);
    auto const width = 1 + static_cast<int>(seed % 3);
    auto const orders = all_orders[seed % all_orders.size()];
    auto const pack_below = std::array{std::size_t{0}, std::size_t{24}, always}[seed / 4 % 3];
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto const plan = token_plan{counts, of.where, comm.rank(), of.topo, orders};
      auto const sent = rows_of(of, counts, comm.rank(), width, orders.sent);
      auto const expected = arriving_at(of, counts, comm.rank(), width, orders.received);
      auto bare = support::exchange_only{comm};
      auto stream = fssdp::host_stream{};
      auto queued = fssdp::on_stream(bare, stream);
      return goes_wrong(comm, plan, sent, expected, width, pack_below) +
             goes_wrong(bare, plan, sent, expected, width, pack_below) +
             goes_wrong(queued, plan, sent, expected, width, pack_below);
    });
    REQUIRE(support::total(wrong) == 0);
  });
}

TEST_CASE("combine is the transpose of dispatch: <D x, y> = <x, C y>") {
  auto seed = std::uint64_t{1000};
  support::for_random_instances(support::law_instances / 20 + 1, [&](random_instance const& of) {
    auto const counts = support::random_counts(of, ++seed);
    auto const products = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto const plan = token_plan{counts, of.where, comm.rank(), of.topo};
      auto const me = comm.rank().index();
      auto x = matrix(plan.sent_rows());
      auto y = matrix(plan.received_rows());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = support::small_integer({3, me, i});
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = support::small_integer({4, me, i});
      auto dispatched = matrix(y.size());
      auto combined = matrix(x.size());
      auto const view = [](matrix& rows) { return rows_view<int>{rows.data(), rows.size(), 1}; };
      fssdp::dispatch(comm, plan, view(x), view(dispatched));
      fssdp::combine(comm, plan, view(y), view(combined));
      return std::pair{std::inner_product(y.begin(), y.end(), dispatched.begin(), 0L),
                       std::inner_product(x.begin(), x.end(), combined.begin(), 0L)};
    });
    auto forward = 0L;
    auto backward = 0L;
    for (auto const& [a, b] : products) {
      forward += a;
      backward += b;
    }
    REQUIRE(forward == backward);
  });
}

TEST_CASE("ranks without tokens take part, also if all are without") {
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 3}};
  auto const where = fssdp::placement{layout};
  for (auto const& values :
       {std::vector<std::uint64_t>(9), std::vector<std::uint64_t>{0, 0, 0, 2, 0, 5, 0, 0, 0}}) {
    auto const counts = token_counts{3, 3, values};
    auto const received = support::on_all_ranks(3, [&](thread_communicator& comm) {
      auto const plan = token_plan{counts, where, comm.rank()};
      auto rows = rank_rows{plan, rows_of(counts, comm.rank(), 2), 2};
      fssdp::dispatch(comm, plan, rows.view(rows.tokens), rows.view(rows.received));
      fssdp::combine(comm, plan, rows.view(rows.received), rows.view(rows.returned));
      return rows.returned == rows.tokens ? static_cast<int>(plan.received_rows()) : -1;
    });
    REQUIRE(received == std::vector{static_cast<int>(values[3]), 0, static_cast<int>(values[5])});
  }
}

TEST_CASE("the documented cost: a message per rank or per segment, one exchange, no allocation") {
  auto seed = std::uint64_t{0};
  auto packed = std::size_t{0};
  auto fewer = std::uint64_t{0};
  auto single = std::uint64_t{0};
  support::for_random_instances(support::law_instances / 100 + 3, [&](random_instance const& of) {
    auto const counts = support::random_counts(of, ++seed);
    for (auto const& orders : all_orders)
      for (auto const pack_below : {std::size_t{0}, std::size_t{24}, always}) {
        auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
          auto const plan = token_plan{counts, of.where, comm.rank(), of.topo, orders};
          auto rows = rank_rows{plan, matrix(plan.sent_rows() * 2), 2};
          auto scratch = fssdp::scratch_memory{};
          auto const how = token_options{.pack_below = pack_below, .scratch = &scratch};
          auto counted = fssdp::counting{comm};
          auto const there = [&] {
            fssdp::dispatch(counted, plan, rows.view(rows.tokens), rows.view(rows.received), how);
          };
          auto const back = [&] {
            fssdp::combine(counted, plan, rows.view(rows.received), rows.view(rows.returned), how);
          };
          there();
          auto result = cost_found{.counts = counted.counts(), .plan = plan};
          back();
          result.allocations = support::allocations_in(there) + support::allocations_in(back);
          result.packed = scratch.bytes();
          return std::optional{result};
        });
        for (auto const& of_rank : found) {
          auto const& [count, plan, allocations, scratch] = *of_rank;
          auto const in_place =
              orders.sent == row_order::by_rank && orders.received == row_order::by_rank;
          auto const expected = expected_counts(*plan, in_place ? always : pack_below);
          REQUIRE(count == expected);
          REQUIRE(allocations == 0);
          if (in_place || pack_below == 0) REQUIRE(scratch == 0);
          packed += scratch;
          fewer += pack_below == 24 ? expected.messages_sent : 0;
          single += pack_below == always ? expected.messages_sent : 0;
        }
      }
  });
  REQUIRE(packed > 0);
  REQUIRE(fewer > single);  // some were long enough
}

TEST_CASE("by default short segments are one message, and long ones one each") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const counts = token_counts{2, 4, {1, 1, 1, 1, 1, 1, 1, 1}};
  auto const messages = [&](std::size_t width) {
    return support::on_all_ranks(2, [&](thread_communicator& comm) {
      auto const plan = token_plan{counts, fssdp::placement{layout}, comm.rank()};
      auto rows = rank_rows{plan, matrix(4 * width), static_cast<int>(width)};
      auto counted = fssdp::counting{comm};
      fssdp::dispatch(counted, plan, rows.view(rows.tokens), rows.view(rows.received));
      return counted.counts().messages_sent;
    });
  };
  constexpr auto limit = token_options::packs_below / sizeof(int);
  REQUIRE(messages(limit - 1) == std::vector<std::uint64_t>{1, 1});
  REQUIRE(messages(limit) == std::vector<std::uint64_t>{2, 2});
}

TEST_CASE(
    "on a device nothing is packed unless asked for, then into memory that is given or freed") {
  auto seed = std::uint64_t{0};
  auto allocated = 0;
  support::for_random_instances(support::law_instances / 100 + 3, [&](random_instance const& of) {
    auto const counts = support::random_counts(of, ++seed);
    auto const orders = all_orders[seed % all_orders.size()];
    auto const in_place =
        orders.sent == row_order::by_rank && orders.received == row_order::by_rank;
    struct found_on_device {
      int wrong = 0;
      int allocations = 0;
    };
    auto const found = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto const plan = token_plan{counts, of.where, comm.rank(), of.topo, orders};
      auto counted = fssdp::counting{comm};
      auto device = support::on_a_device{counted};
      auto rows = rank_rows{plan, rows_of(of, counts, comm.rank(), 2, orders.sent), 2};
      auto const expected = arriving_at(of, counts, comm.rank(), 2, orders.received);
      auto data = fssdp::scratch_memory{};
      auto const needed = (plan.sent_rows() + plan.received_rows()) * 2 * sizeof(int);
      auto result = found_on_device{};
      auto const move = [&](token_options const& how, std::size_t pack_below) {
        counted.reset();
        rows.received.assign(rows.received.size(), -1);
        rows.returned.assign(rows.returned.size(), -1);
        fssdp::dispatch(device, plan, rows.view(rows.tokens), rows.view(rows.received), how);
        auto const messages = counted.counts();
        fssdp::combine(device, plan, rows.view(rows.received), rows.view(rows.returned), how);
        result.wrong += messages != expected_counts(plan, in_place ? always : pack_below) ? 1 : 0;
        result.wrong += rows.received != expected || rows.returned != rows.tokens ? 1 : 0;
      };
      move({}, 0);
      move({.pack_below = always, .device_scratch = data.reserve(needed + 64)}, always);
      result.wrong += device.allocations();
      move({.pack_below = always}, always);
      result.wrong += device.live();
      result.allocations = device.allocations();
      return result;
    });
    for (auto const& of_rank : found) {
      REQUIRE(of_rank.wrong == 0);
      REQUIRE(of_rank.allocations <= (in_place ? 0 : 2));  // there and back
      allocated += of_rank.allocations;
    }
  });
  REQUIRE(allocated > 0);
}

TEST_CASE("rows or worlds that do not fit are refused by name, before anything is sent") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const where = fssdp::placement{layout};
  auto const counts = token_counts{2, 2, {3, 1, 0, 0}};
  auto const plan = token_plan{counts, where, rank_id{0}};  // sends 4, receives 3
  auto memory = matrix(64);
  auto const rows = [&](std::size_t count, std::size_t width) {
    return rows_view<int>{memory.data(), count, width};
  };
  refuses([&](auto& comm) { fssdp::dispatch(comm, plan, rows(3, 2), rows(3, 2)); },
          "dispatch: from is [3, 2]", "[4, 2]");
  refuses([&](auto& comm) { fssdp::dispatch(comm, plan, rows(4, 2), rows(4, 2)); },
          "dispatch: to is [4, 2]", "[3, 2]");
  refuses([&](auto& comm) { fssdp::dispatch(comm, plan, rows(4, 2), rows(3, 1)); },
          "dispatch: to is [3, 1]", "[3, 2]");
  refuses([&](auto& comm) { fssdp::combine(comm, plan, rows(4, 2), rows(4, 2)); },
          "combine: from is [4, 2]", "[3, 2]");
  refuses([&](auto& comm) { fssdp::combine(comm, plan, rows(3, 2), rows(3, 2)); },
          "combine: to is [3, 2]", "[4, 2]");
  auto const null = [](std::size_t count) { return rows_view<int>{nullptr, count, 2}; };
  refuses([&](auto& comm) { fssdp::dispatch(comm, plan, null(4), rows(3, 2)); },
          "dispatch: from is null", "[4, 2]");
  refuses([&](auto& comm) { fssdp::combine(comm, plan, rows(3, 2), null(4)); },
          "combine: to is null", "[4, 2]");
  constexpr auto too_wide = std::size_t(-1) / 4;  // four rows wrap around
  refuses([&](auto& comm) { fssdp::dispatch(comm, plan, rows(4, too_wide), rows(3, too_wide)); },
          "dispatch: from is", "expected at most");
  refuses([&](auto& comm) { fssdp::combine(comm, plan, rows(3, 2), rows(4, 2)); },
          "combine: from and to share memory", "disjoint rows");
  auto const of_other = token_plan{counts, where, rank_id{1}};  // sends 0, receives 1
  refuses([&](auto& comm) { fssdp::dispatch(comm, of_other, rows(0, 2), rows(1, 2)); },
          "rank 0 of 2", "rank 1 of 2");
}

TEST_CASE("ranks with different counts get an error") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const where = fssdp::placement{layout};
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    // the same rows between the two, but rank 1 counts one more of its own
    auto const more = static_cast<std::uint64_t>(comm.rank().value());
    auto const counts = token_counts{2, 2, {1, 2, 2, 1 + more}};
    auto const plan = token_plan{counts, where, comm.rank()};
    auto rows = rank_rows{plan, rows_of(counts, comm.rank(), 1), 1};
    fssdp::dispatch(comm, plan, rows.view(rows.tokens), rows.view(rows.received));
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}
