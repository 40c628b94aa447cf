// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads: messages arrive, in order, once, at the right place.
#include "fssdp/comm/thread.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::thread_world;
using support::on_all_ranks;

namespace {

/// A pattern of messages: sizes[from][to] has the length of each.
struct message_pattern {
  std::vector<std::vector<std::vector<int>>> sizes;

  message_pattern(support::dice& draw, std::size_t ranks)
      : sizes(ranks, std::vector<std::vector<int>>(ranks)) {
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to)
        for (int i = draw.chance(50) ? 0 : draw.between(1, 3); i > 0 && from != to; --i)
          sizes[from][to].push_back(draw.between(0, 4));
  }
};

using message = std::vector<std::uint32_t>;

[[nodiscard]] message content(std::size_t from, std::size_t to, std::size_t i, int size, int turn) {
  auto const first = (((from * 100 + to) * 100 + i) * 100 + static_cast<std::size_t>(turn)) * 10;
  auto words = message{};
  for (int word = 0; word < size; ++word)
    words.push_back(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(word));
  return words;
}

/// Sends and receives a pattern; how many messages did not arrive as they should.
[[nodiscard]] int wrong_messages(thread_communicator& comm, message_pattern const& of, int turn) {
  auto const me = comm.rank().index();
  auto out = std::vector<std::vector<message>>(of.sizes.size());
  auto in = out;
  for (std::size_t peer = 0; peer < of.sizes.size(); ++peer) {
    auto const& sent = of.sizes[me][peer];
    for (std::size_t i = 0; i < sent.size(); ++i)
      out[peer].push_back(content(me, peer, i, sent[i], turn));
    for (auto const size : of.sizes[peer][me])
      in[peer].push_back(message(static_cast<std::size_t>(size)));
  }
  comm.exchange([&](auto& batch) {
    for (std::size_t peer = 0; peer < out.size(); ++peer) {
      for (auto& words : in[peer])
        batch.recv(std::as_writable_bytes(std::span{words}), rank_id{peer});
      for (auto& words : out[peer]) batch.send(std::as_bytes(std::span{words}), rank_id{peer});
    }
  });
  for (auto& messages : out)  // nobody reads them any more
    for (auto& words : messages) words.assign(words.size(), 0);
  auto wrong = 0;
  for (std::size_t peer = 0; peer < in.size(); ++peer)
    for (std::size_t i = 0; i < in[peer].size(); ++i)
      wrong += in[peer][i] != content(peer, me, i, of.sizes[peer][me][i], turn) ? 1 : 0;
  return wrong;
}

}  // namespace

TEST_CASE("every message of a random pattern arrives, in order, and its memory is free behind it") {
  for (int seed = 1; seed <= support::law_instances / 20 + 1; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const ranks = draw.between(1, 9);
    auto patterns = std::vector<message_pattern>{};
    for (int turn = 0; turn < 10; ++turn)
      patterns.emplace_back(draw, static_cast<std::size_t>(ranks));
    auto const wrong = on_all_ranks(ranks, [&](thread_communicator& comm) {
      auto sum = 0;
      for (int turn = 0; turn < 10; ++turn)
        sum += wrong_messages(comm, patterns[static_cast<std::size_t>(turn)], turn);
      return sum;
    });
    REQUIRE(wrong == std::vector(static_cast<std::size_t>(ranks), 0));
  }
}

TEST_CASE("a rank knows its number and its world") {
  auto const seen = on_all_ranks(5, [](thread_communicator& comm) {
    return std::pair{comm.rank().value(), comm.size()};
  });
  for (int rank = 0; rank < 5; ++rank)
    REQUIRE(seen[static_cast<std::size_t>(rank)] == std::pair{rank, 5});
  REQUIRE(thread_world{7}.size() == 7);
}

TEST_CASE("an empty batch is legal and waits for nobody") {
  auto finished = std::atomic{0};
  thread_world{3}.run([&](thread_communicator& comm) {
    comm.exchange([](auto&) {});
    comm.lend([](auto&) {}, [](auto const&) {});
    ++finished;
  });
  REQUIRE(finished == 3);
}

TEST_CASE("a gather copies every byte once, lending copies none") {
  auto const copied = on_all_ranks(3, [](thread_communicator& comm) {
    auto const mine = std::vector<double>(10);
    auto theirs = std::vector<double>(20);
    auto const send_to_all = [&](auto& batch) {
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) batch.send(std::as_bytes(std::span{mine}), peer);
    };
    comm.exchange([&](auto& batch) {
      send_to_all(batch);
      auto room = std::span{theirs};
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) {
          batch.recv(std::as_writable_bytes(room.first(10)), peer);
          room = room.subspan(10);
        }
    });
    auto const by_exchange = comm.copied_bytes();
    comm.lend(
        [&](auto& batch) {
          send_to_all(batch);
          for (auto const peer : fssdp::first_n<rank_id>(3))
            if (peer != comm.rank()) batch.borrow(80, peer);
        },
        [](auto const&) {});
    return std::pair{by_exchange, comm.copied_bytes() - by_exchange};
  });
  REQUIRE(copied == std::vector(3, std::pair<std::uint64_t, std::uint64_t>{160, 0}));
}

TEST_CASE("borrowed memory is the sender's own, in the order of the borrow calls") {
  constexpr auto ranks = 4;
  auto memory = std::vector<std::vector<int>>(ranks, std::vector<int>(6));
  auto const seen = on_all_ranks(ranks, [&](thread_communicator& comm) {
    auto& mine = memory[comm.rank().index()];
    for (auto& value : mine) value = comm.rank().value();
    auto addresses = std::vector<void const*>{};
    auto sum = 0;
    comm.lend(
        [&](auto& batch) {
          for (auto const peer : fssdp::first_n<rank_id>(ranks)) {
            if (peer == comm.rank()) continue;
            batch.send(std::as_bytes(std::span{mine}.first(2)), peer);
            batch.send(std::as_bytes(std::span{mine}.subspan(2)), peer);
          }
          for (std::size_t size : {8U, 16U})  // first all heads, highest rank first; then all tails
            for (auto peer = ranks - 1; peer >= 0; --peer)
              if (peer != comm.rank().value()) batch.borrow(size, rank_id{peer});
        },
        [&](std::span<std::span<std::byte const> const> lent) {
          for (auto const bytes : lent) {
            addresses.push_back(bytes.data());
            sum += *reinterpret_cast<int const*>(bytes.data());
          }
        });
    mine.assign(6, -1);  // nobody reads it any more
    return std::pair{addresses, sum};
  });
  for (int rank = 0; rank < ranks; ++rank) {
    auto expected = std::vector<void const*>{};
    for (std::size_t first : {0U, 2U})
      for (auto peer = ranks - 1; peer >= 0; --peer)
        if (peer != rank) expected.push_back(memory[static_cast<std::size_t>(peer)].data() + first);
    REQUIRE(seen[static_cast<std::size_t>(rank)] ==
            std::pair{expected, 2 * (0 + 1 + 2 + 3 - rank)});
  }
}

TEST_CASE("a message to oneself or to nobody is refused by name") {
  auto const refused = [](int to) {
    auto world = thread_world{2};
    return support::fallout_of(world, [&](thread_communicator& comm) {
      if (comm.rank() == rank_id{1})
        comm.exchange([&](auto& batch) { batch.send({}, rank_id{to}); });
    });
  };
  for (auto const to : {1, 2, -1}) {
    CAPTURE(to);
    auto const result = refused(to);
    REQUIRE(support::is<fssdp::argument_error>(result.of_run));
    REQUIRE(support::is<fssdp::argument_error>(result.of_rank[1]));
    REQUIRE_THAT(support::text(result.of_run),
                 mentions("rank " + std::to_string(to)) && mentions("0 to 1"));
  }
}

TEST_CASE("a world that cannot be is refused") {
  REQUIRE_THROWS_AS((thread_world{0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((thread_world{-2}), mentions("-2 ranks") && mentions("1 or more"));
  auto const no_time = thread_world::options{.ranks = 2, .deadline = std::chrono::milliseconds{0}};
  REQUIRE_THROWS_AS(thread_world{no_time}, fssdp::argument_error);
  REQUIRE_THROWS_WITH(thread_world{no_time}, mentions("0 ms") && mentions("more than 0"));
}
