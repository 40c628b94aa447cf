// SPDX-License-Identifier: Apache-2.0
/// Random instances whose experts have several blocks, and what a codec makes of their chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "support/any_buffer.hpp"
#include "support/codec_data.hpp"
#include "support/dice.hpp"
#include "support/random_instance.hpp"
#include "support/scheduled_plan.hpp"

namespace support {

/// The plans that one placement on one topology may have.
enum class plan_kind { direct, chain, scheduled };

[[nodiscard]] inline fssdp::transfer_plan plan_of(random_instance const& of, plan_kind kind,
                                                  dice& draw) {
  auto const chain = make_plan(of.layout, of.where, of.topo);
  if (kind == plan_kind::direct) return rank_ordered(chain);
  return kind == plan_kind::chain ? chain : scheduled_plan(of, draw);
}

/// An instance with a plan of any kind that knows the topology, and links of any class.
struct coded_instance : random_instance {
  fssdp::link_class on;

  explicit coded_instance(std::uint64_t seed,
                          size_limits const& limits = {.ranks = 8, .nodes = 4, .experts = 12})
      : coded_instance{seed, limits, dice{seed + 3'000'000}} {}

 private:
  coded_instance(std::uint64_t seed, size_limits const& limits, dice draw)
      : random_instance{seed, limits}, on{fssdp::link_class{draw.between(0, 2)}} {
    for (auto& size : elements)
      size = static_cast<std::size_t>(draw.between(1, draw.chance(70) ? 1500 : 5));
    plan = plan_of(*this, plan_kind{draw.between(0, 2)}, draw);
  }
};

/// Calls law(instance) for many seeds; a failure prints the seed.
template <class Law>
void for_coded_instances(int count, Law law) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    law(coded_instance{seed});
  }
}

/// Whether a transfer goes over a link of the class.
[[nodiscard]] inline bool goes_over(random_instance const& of, fssdp::link_class on,
                                    fssdp::transfer const& t) {
  auto const inside = of.topo.node(t.source) == of.topo.node(t.destination);
  return on == fssdp::link_class::all || inside == (on == fssdp::link_class::inside_nodes);
}
/// Whether any transfer of the chunk does.
[[nodiscard]] inline bool any_goes_over(random_instance const& of, fssdp::link_class on,
                                        fssdp::chunk_id chunk) {
  for (auto const& t : of.plan.transfers())
    if (t.chunk == chunk && goes_over(of, on, t)) return true;
  return false;
}

/// Fills a buffer with finite numbers that every type holds; other ones for other seeds.
template <class Buffer>
void fill_like_gradients(Buffer& buffer, std::uint64_t seed) {
  auto draw = dice{seed};
  fill(buffer, [&] { return static_cast<double>(random_float(draw, 5)); });
}
/// The same for the buffers of all ranks: the seeds count from the first rank's.
template <class Buffer>
[[nodiscard]] std::vector<Buffer> filled_like_gradients(std::vector<Buffer> buffers,
                                                        std::uint64_t seed = 1) {
  for (auto& buffer : buffers) fill_like_gradients(buffer, seed++);
  return buffers;
}

}  // namespace support
