// SPDX-License-Identifier: Apache-2.0
/// Groups of threads whose ranks own experts: what comes out of exchanges between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"

namespace support {

using owned_layouts = fssdp::layer_stack<fssdp::table_layout>;

/// Two layers of experts on the ranks of a group, with owners by chance: some ranks may own nothing.
[[nodiscard]] inline owned_layouts owners_by_chance(int experts, int ranks, std::uint64_t seed) {
  auto draw = dice{seed};
  auto layers = std::vector<fssdp::table_layout>{};
  for (int layer = 0; layer < 2; ++layer) {
    auto owners = std::vector<fssdp::rank_id>{};
    for (int e = 0; e < experts; ++e) owners.emplace_back(draw.between(0, ranks - 1));
    layers.push_back({{.ranks = ranks}, std::move(owners)});
  }
  return owned_layouts{std::move(layers)};
}

/// The tensors of an expert: a matrix and a run.
[[nodiscard]] inline std::vector<fssdp::unit_shape> two_shapes() { return {{24, 20}, {1, 37}}; }
[[nodiscard]] inline std::vector<std::size_t> sizes_of(
    std::vector<fssdp::unit_shape> const& shapes) {
  auto sizes = std::vector<std::size_t>{};
  for (auto const shape : shapes) sizes.push_back(shape.elements());
  return sizes;
}

/// An element of a gradient that depends on group, step and where it is, not on who owns it.
[[nodiscard]] inline float gradient_at(int group, std::uint64_t step, int layer, int expert,
                                       std::size_t tensor, std::size_t element) {
  auto bits = static_cast<std::uint64_t>(group) * 31 + step;
  for (auto const part : {static_cast<std::uint64_t>(layer), static_cast<std::uint64_t>(expert),
                          std::uint64_t{tensor}, std::uint64_t{element}}) {
    bits = (bits ^ part) * 0x9e3779b97f4a7c15U;
    bits ^= bits >> 29U;
  }
  return static_cast<float>(static_cast<int>(bits % 2001) - 1000) / 128;
}

/// What is known of a tensor of an expert: by layer, expert, tensor.
using by_unit = std::map<std::tuple<int, int, std::size_t>, std::vector<float>>;

/// Writes the gradients of a layer of what a rank owns.
inline void write_gradients(owned_layouts const& layouts, fssdp::layer_id layer,
                            fssdp::rank_id rank, int group, std::uint64_t step,
                            fssdp::expert_buffer<float>& into) {
  into.resize(layouts.layer(layer).owned(rank).size());
  for (std::size_t slot = 0; auto const chunk : layouts.layer(layer).owned(rank)) {
    for (std::size_t k = 0; k < into.tensors().size(); ++k)
      for (std::size_t i = 0; auto& value : into.tensors()[k][slot])
        value = gradient_at(group, step, layer.value(), chunk.expert.value(), k, i++);
    ++slot;
  }
}
/// Reads them into a map.
inline void read_units(owned_layouts const& layouts, fssdp::layer_id layer, fssdp::rank_id rank,
                       fssdp::expert_buffer<float>& from, by_unit& into) {
  for (std::size_t slot = 0; auto const chunk : layouts.layer(layer).owned(rank)) {
    for (std::size_t k = 0; k < from.tensors().size(); ++k) {
      auto const values = from.tensors()[k][slot];
      into[{layer.value(), chunk.expert.value(), k}] = {values.begin(), values.end()};
    }
    ++slot;
  }
}

/// Calls body(comm, inside, between, group) on the ranks of some groups; what each returns.
template <class Body>
[[nodiscard]] auto on_groups(fssdp::thread_world& world, fssdp::hybrid_groups const& groups,
                             Body body) {
  return on_all_ranks(world, [&](fssdp::thread_communicator& comm) {
    auto two = fssdp::split(comm, groups);
    return body(comm, two.inside, two.between);
  });
}

}  // namespace support
