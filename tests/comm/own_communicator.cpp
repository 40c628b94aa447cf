// SPDX-License-Identifier: Apache-2.0
// The adapters of the example 02_own_communicator do what fssdp asks of a communicator.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "../../examples/02_own_communicator/on_all_ranks.hpp"
#include "../../examples/02_own_communicator/queue_communicator.hpp"
#include "catch.hpp"
#include "fssdp/fssdp.hpp"
#include "support/laws.hpp"

#if defined(EXAMPLE_HAS_GLOO)
#include "../../examples/02_own_communicator/gloo_communicator.hpp"
using hosts = std::tuple<queue_host, gloo_host>;
#else
using hosts = std::tuple<queue_host>;
#endif

namespace {

/// What function(comm) returned: [rank].
template <class Host, class Function>
[[nodiscard]] auto results_of(Host& host, Function function) {
  auto ranks = on_all_ranks(host, function);
  auto results = std::vector<decltype(ranks.front().get())>{};
  for (auto& rank : ranks) results.push_back(rank.get());
  return results;
}

/// A whole number from -8 to 8, any for every list of numbers: sums of such are exact.
template <class... Numbers>
[[nodiscard]] float small(Numbers... numbers) {
  auto h = std::uint64_t{1};
  for (auto const number : {static_cast<std::uint64_t>(numbers)...}) {
    h = (h ^ number) * 0x9e3779b97f4a7c15;
    h ^= h >> 32U;
  }
  return static_cast<float>(static_cast<int>(h % 17) - 8);
}

/// The two sides of <G x, y> = <x, G^T y>, as one rank sees them.
struct products {
  double gathered = 0;  // over what the rank holds
  double reduced = 0;   // over what it owns
  int wrong = 0;        // elements that differ from the owner's
};

template <class Comm>
[[nodiscard]] products gather_and_reduce(Comm& comm, support::random_instance const& given) {
  auto const& elements = given.elements;
  auto const& plan = given.plan;
  auto const me = comm.rank();
  auto const x = [](fssdp::expert_id expert, std::size_t k, std::size_t i) {
    return small(expert.index(), k, i);
  };
  auto weights = fssdp::make_shard<float>(given.layout, me, elements);
  auto replicas = fssdp::make_replicas<float>(plan, me, elements);
  auto partials = fssdp::make_partials<float>(plan, me, elements);
  auto gradients = fssdp::make_shard<float>(given.layout, me, elements);
  auto const each = [&](auto const& experts, auto function) {
    for (auto const expert : experts)
      for (std::size_t k = 0; k < elements.size(); ++k)
        for (std::size_t i = 0; i < elements[k]; ++i) function(expert, k, i);
  };

  auto sums = products{};
  each(given.layout.owned(me), [&](fssdp::chunk_id chunk, std::size_t k, std::size_t i) {
    weights.tensors()[k][plan.owner_slot(chunk)][i] = x(chunk.expert, k, i);
  });
  fssdp::sparse_all_gather(comm, plan, weights, replicas);
  auto const held = fssdp::held(plan, me, weights, replicas);
  each(plan.held(me), [&](fssdp::expert_id expert, std::size_t k, std::size_t i) {
    auto const slot = fssdp::transfer_plan::slot_in(plan.held(me), expert);
    auto const y = small(me.index(), expert.index(), k, i);
    auto const value = held[slot].tensors[k][i];
    if (value != x(expert, k, i)) ++sums.wrong;
    partials.tensors()[k][slot][i] = y;
    sums.gathered += static_cast<double>(value * y);
  });
  fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
  each(given.layout.owned(me), [&](fssdp::chunk_id chunk, std::size_t k, std::size_t i) {
    auto const gradient = gradients.tensors()[k][plan.owner_slot(chunk)][i];
    sums.reduced += static_cast<double>(x(chunk.expert, k, i) * gradient);
  });
  return sums;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("over a host's own communicator a reduction is the transpose of a gather",
                        "[comm]", hosts) {
  auto const law = [](support::random_instance const& given) {
    auto host = TestType{given.layout.ranks()};
    auto all = products{};
    for (auto const& of_rank :
         results_of(host, [&given](auto& comm) { return gather_and_reduce(comm, given); })) {
      all.gathered += of_rank.gathered;
      all.reduced += of_rank.reduced;
      all.wrong += of_rank.wrong;
    }
    CHECK(all.wrong == 0);
    CHECK(all.gathered == all.reduced);
  };
  support::for_random_instances(std::min(50, support::law_instances), law,
                                {.ranks = 4, .slices = 1});
}

TEMPLATE_LIST_TEST_CASE("a host's own communicator keeps the order of messages", "[comm]", hosts) {
  // Between any two ranks, per exchange: a message of one byte, an empty one, one of four, and
  // in every other exchange none at all.
  auto host = TestType{4};
  auto const received = results_of(host, [](auto& comm) {
    auto text = std::string{};
    for (int turn = 0; turn < 20; ++turn) {
      auto const mine = static_cast<char>('a' + comm.rank().value());
      auto const word = std::array{mine, 'x', 'y', static_cast<char>('a' + turn)};
      auto in = std::array<std::array<char, 5>, 4>{};
      for (auto& line : in) line.fill('-');
      comm.exchange([&](auto& batch) {
        if (turn % 2 == 1) return;
        for (auto const peer : fssdp::first_n<fssdp::rank_id>(comm.size())) {
          if (peer == comm.rank()) continue;
          auto const line = std::as_writable_bytes(std::span{in[peer.index()]});
          batch.send(std::as_bytes(std::span{&mine, 1}), peer);
          batch.recv(line.first(1), peer);
          batch.send({}, peer);
          batch.recv({}, peer);
          batch.send(std::as_bytes(std::span{word}), peer);
          batch.recv(line.last(4), peer);
        }
      });
      for (auto const& line : in) text.append(line.begin(), line.end());
    }
    return text;
  });
  for (int rank = 0; rank < 4; ++rank) {
    auto expected = std::string{};
    for (int turn = 0; turn < 20; ++turn)
      for (int peer = 0; peer < 4; ++peer) {
        auto const name = static_cast<char>('a' + peer);
        expected += turn % 2 == 1 || peer == rank
                        ? std::string{"-----"}
                        : std::string{name, name, 'x', 'y', static_cast<char>('a' + turn)};
      }
    CHECK(received[static_cast<std::size_t>(rank)] == expected);
  }
}

TEMPLATE_LIST_TEST_CASE("a host's own communicator names a rank that does not answer", "[comm]",
                        hosts) {
  auto host = TestType{3, std::chrono::milliseconds{500}};
  auto const culprits = results_of(host, [](auto& comm) {
    if (comm.rank() == fssdp::rank_id{1}) return -1;  // comes, and says nothing
    try {
      auto byte = std::byte{};
      comm.exchange([&](auto& batch) { batch.recv({&byte, 1}, fssdp::rank_id{1}); });
    } catch (fssdp::transport_error const& error) {
      return error.culprit().value();
    }
    return -1;
  });
  CHECK(culprits == std::vector{1, -1, 1});
}
