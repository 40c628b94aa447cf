// SPDX-License-Identifier: Apache-2.0
/// How long exchanges between groups take, and how much of that is exposed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "crossing.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"
#include "groups.hpp"
#include "result.hpp"

namespace sim {

/// The backward pass of a layer, on all devices of a group.
struct layer_pace {
  double experts_seconds = 0;    ///< experts and their tokens, before gradients can go home
  double reduction_seconds = 0;  ///< until gradients are with their owners; beside what follows
  double rest_seconds = 0;       ///< attention, what is dense, and waits
  std::vector<int> owned = {};   ///< [devices]: chunks
};

/// @param non_moe_seconds of a layer, forward and backward
[[nodiscard]] inline layer_pace pace_of(layer_result const& of, double non_moe_seconds) {
  return {.experts_seconds = of.compute_seconds * 2 / 3 + of.token_seconds / 2,
          .reduction_seconds = of.reduction_seconds,
          .rest_seconds = non_moe_seconds * 2 / 3 + of.exposed_backward_seconds,
          .owned = of.owned};
}

/// Of an iteration; if parameters are exchanged every few iterations, the share of one.
struct between_cost {
  double bytes = 0;            ///< that the device sends which sends most
  double link_seconds = 0;     ///< of the interface that takes longest
  double exposed_seconds = 0;  ///< for which devices wait
};

namespace detail {

/// What a device sends that owns 0, 1, 2, ... chunks of a layer, up to the most that any has.
[[nodiscard]] inline std::vector<double> bytes_by_owned(std::span<layer_pace const> layers,
                                                        crossing const& by) {
  auto most = 0;
  for (auto const& layer : layers) most = std::max(most, std::ranges::max(layer.owned));
  auto bytes = std::vector<double>{};
  for (int owned = 0; owned <= most; ++owned) bytes.push_back(static_cast<double>(by.bytes(owned)));
  return bytes;
}

/// For how long the interface of some devices is busy with a layer: their bytes, and each time that
/// they meet their counterparts the latency, and messages to all of these.
/// @param sent [devices]: bytes
[[nodiscard]] inline double link_seconds(std::span<double const> sent, crossing const& by,
                                         std::span<fssdp::rank_id const> devices,
                                         double bytes_per_second,
                                         fssdp::message_cost const& message) {
  auto bytes = 0.0;
  auto senders = 0.0;
  for (auto const device : devices) {
    bytes += sent[device.index()];
    senders += sent[device.index()] > 0 ? 1 : 0;
  }
  if (senders == 0) return 0;
  auto const messages = senders * (by.groups() - 1);
  return bytes / bytes_per_second +
         by.meetings() * (message.between_latency_seconds + messages * message.port_seconds);
}

/// How much longer than the layers the exchanges of an interface take, layer after layer as soon as
/// gradients are with their owners.
/// @param link [layers]: how long the exchange of each takes
[[nodiscard]] inline double exposed_behind(std::span<layer_pace const> layers,
                                           std::span<double const> link) {
  auto now = 0.0;
  auto reduced = 0.0;
  auto crossed = 0.0;
  for (auto layer = layers.size(); layer-- > 0;) {
    now += layers[layer].experts_seconds;
    reduced = std::max(reduced, now) + layers[layer].reduction_seconds;
    if (link[layer] > 0) crossed = std::max(crossed, reduced) + link[layer];
    now += layers[layer].rest_seconds;
  }
  return std::max(0.0, crossed - std::max(now, reduced));
}

/// For how long parameters that cross keep devices waiting, in a round: layer l is in fragment l
/// modulo their number, and the interface that takes longest for a fragment is waited for, unless
/// iterations hide it.
/// @param links [interfaces, layers]: how long the exchange of each takes
/// @param iteration_seconds of one in which nothing waits
[[nodiscard]] inline double exposed_in_round(std::span<std::vector<double> const> links,
                                             group_rhythm const& of, double iteration_seconds) {
  auto const hidden = of.hiding_iterations() * iteration_seconds;
  auto const fragments = static_cast<std::size_t>(of.fragments);
  auto exposed = 0.0;
  for (std::size_t fragment = 0; fragment < fragments; ++fragment) {
    auto longest = 0.0;
    for (auto const& link : links) {
      auto seconds = 0.0;
      for (auto layer = fragment; layer < link.size(); layer += fragments) seconds += link[layer];
      longest = std::max(longest, seconds);
    }
    exposed += std::max(0.0, longest - hidden);
  }
  return exposed;
}

}  // namespace detail

/// Every interface by itself: its devices, and their counterparts at one interface of every other
/// group. Gradients are sent during the backward passes of the layers below, parameters when the
/// optimizer is done, and only whole iterations hide them: those of a delay, or of a round that is
/// applied a round late. What encoding and decoding take is left out, and what the staleness gap
/// does; the wires are none that a group uses inside.
/// @param layers all of the model
/// @param group the devices of one group
/// @param iteration_seconds of one in which nothing waits for other groups
[[nodiscard]] inline between_cost cost_between(std::span<layer_pace const> layers,
                                               fssdp::topology const& group, crossing const& by,
                                               group_setting const& of, double iteration_seconds) {
  auto const bytes = detail::bytes_by_owned(layers, by);
  auto const ranks = static_cast<std::size_t>(group.ranks());
  auto sent = std::vector<std::vector<double>>{};  // [layers, ranks]
  auto of_all = std::vector<double>(ranks);
  for (auto const& layer : layers) {
    auto& here = sent.emplace_back();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      here.push_back(bytes[static_cast<std::size_t>(layer.owned[rank])]);
      of_all[rank] += here.back();
    }
  }
  auto cost = between_cost{.bytes = std::ranges::max(of_all)};
  auto links = std::vector<std::vector<double>>{};  // [interfaces, layers]
  for (auto const interface : fssdp::first_n<fssdp::rank_id>(group.ranks())) {
    if (group.interface_of(interface) != interface) continue;
    auto behind = std::vector<fssdp::rank_id>{};
    for (auto const rank : group.ranks_on(group.node(interface)))
      if (group.interface_of(rank) == interface) behind.push_back(rank);
    auto& link = links.emplace_back();
    auto seconds = 0.0;
    for (auto const& of_layer : sent) {
      link.push_back(detail::link_seconds(of_layer, by, behind, of.bytes_per_second, group.cost()));
      seconds += link.back();
    }
    cost.link_seconds = std::max(cost.link_seconds, seconds);
    cost.exposed_seconds = std::max(cost.exposed_seconds, detail::exposed_behind(layers, link));
  }
  auto const every = of.rhythm.sync_every;
  if (every > 0)
    cost.exposed_seconds = detail::exposed_in_round(links, of.rhythm, iteration_seconds);
  if (every > 0)
    for (auto* part : {&cost.bytes, &cost.link_seconds, &cost.exposed_seconds}) *part /= every;
  return cost;
}

}  // namespace sim
