// SPDX-License-Identifier: Apache-2.0
/// Ranks that own experts whose parameters and moments tell chunk and step: what is mirrored, and
/// what comes back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/dice.hpp"

namespace support {

/// A layout, and ranks on nodes, by chance.
struct mirrored_ranks {
  fssdp::topology topo;
  fssdp::table_layout layout;
};
[[nodiscard]] inline mirrored_ranks mirrored_ranks_by_chance(std::uint64_t seed, int least_ranks) {
  auto draw = dice{seed};
  auto const nodes = draw.between(1, 3);
  auto const ranks = draw.between(std::max(least_ranks, nodes), 6);
  auto node_of = std::vector<fssdp::node_id>{};
  for (int rank = 0; rank < ranks; ++rank)
    node_of.emplace_back(rank < nodes ? rank : draw.between(0, nodes - 1));
  draw.shuffle(node_of);
  auto const slices = draw.between(1, 2);
  auto owners = std::vector<fssdp::rank_id>{};
  auto const chunks = draw.between(1, 8) * slices;
  for (int chunk = 0; chunk < chunks; ++chunk) owners.emplace_back(draw.between(0, ranks - 1));
  return {fssdp::topology{node_of}, {{.ranks = ranks, .slices = slices}, std::move(owners)}};
}

/// What an owner has: two tensors of parameters, moments in another type. Every value tells its
/// chunk, and the step that it is of.
class trained_shard {
 public:
  trained_shard(fssdp::table_layout const& layout, fssdp::rank_id rank)
      : layout_{layout},
        rank_{rank},
        weights_{fssdp::make_shard<float>(layout, rank, sizes())},
        moments_{fssdp::make_shard<double>(layout, rank, sizes())} {}

  [[nodiscard]] auto state() { return fssdp::bytes_of(weights_, moments_); }
  void step_to(std::uint64_t step) {
    for_each([&](fssdp::chunk_id chunk, std::size_t k, auto values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        set(values[i], value(chunk, k, i, step, sizeof values[i]));
    });
  }
  /// How many values are not those of that step.
  [[nodiscard]] int wrong(std::uint64_t step) {
    auto count = 0;
    for_each([&](fssdp::chunk_id chunk, std::size_t k, auto values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto expected = values[i];
        set(expected, value(chunk, k, i, step, sizeof values[i]));
        count += std::memcmp(&expected, &values[i], sizeof expected) == 0 ? 0 : 1;
      }
    });
    return count;
  }

 private:
  [[nodiscard]] static std::vector<std::size_t> sizes() { return {24, 7}; }
  [[nodiscard]] static std::uint64_t value(fssdp::chunk_id chunk, std::size_t k, std::size_t i,
                                           std::uint64_t step, std::size_t size) {
    auto bits = std::uint64_t{0};
    for (auto const part : {static_cast<std::uint64_t>(chunk.expert.value()),
                            static_cast<std::uint64_t>(chunk.slice.value()), std::uint64_t{k},
                            std::uint64_t{i}, step, std::uint64_t{size}}) {
      bits = (bits ^ (part + 1)) * 0x9e3779b97f4a7c15U;
      bits ^= bits >> 29U;
    }
    return bits % 1'000'003;
  }
  template <class T>
  static void set(T& to, std::uint64_t number) {
    to = static_cast<T>(number);
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t slot = 0; auto const chunk : layout_.owned(rank_)) {
      for (std::size_t k = 0; k < sizes().size(); ++k) {
        visit(chunk, k, weights_.tensors()[k][slot]);
        visit(chunk, k, moments_.tensors()[k][slot]);
      }
      ++slot;
    }
  }

  fssdp::table_layout layout_;
  fssdp::rank_id rank_;
  fssdp::expert_buffer<float> weights_;
  fssdp::expert_buffer<double> moments_;
};

/// How many bytes differ between the shard of a rank and a copy of it.
template <class Copy>
[[nodiscard]] std::size_t differing_bytes(trained_shard& of, std::size_t slots, Copy const& copy) {
  auto const state = of.state();
  auto count = state.size() == copy.size() ? std::size_t{0} : std::size_t{1};
  for (std::size_t k = 0; k < state.size() && count == 0; ++k)
    for (std::size_t slot = 0; slot < slots; ++slot)
      for (std::size_t i = 0; i < state[k].elements; ++i)
        count += state[k][slot][i] == copy[k][slot][i] ? 0 : 1;
  return count;
}

}  // namespace support
