// SPDX-License-Identifier: Apache-2.0
/// What a policy is: it places the experts of one layer for one iteration.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace sim {

/// By what placements are judged: the model of time, or the fullest device over the average one,
/// as if links were free.
enum class objective { time, balance };

/// All that a policy may look at.
struct layer_question {
  fssdp::topology const* topology;
  fssdp::layer_rates rates;
  fssdp::table_layout const* owners;     ///< as the policy's sharding has it
  fssdp::expert_loads const* predicted;  ///< [experts], any scale
  fssdp::token_counts const* counts;     ///< what is routed in the end
  int slots = 0;                         ///< replicas that a device has memory for
  int overlap = 0;                       ///< experts that a window hides
  objective goal = objective::time;
};

/// Which replica gets which tokens: the paper's rule, all of them the same, all slots the same, or
/// what evens out devices and ports (fssdp::balanced_routing).
enum class routing_rule { even, uniform, slots, balanced };

struct layer_answer {
  fssdp::table_layout owners;  ///< the question's, or others where moving is for nothing
  fssdp::placement where;      ///< contains the owners
  routing_rule routing = routing_rule::even;
  fssdp::physical_experts slots = {};  ///< if the routing uses them
  /// Those replicas of `where` that come only when the router has counted: nothing hides their
  /// gather.
  std::optional<fssdp::placement> late = {};
};
using layer_answers = std::vector<layer_answer>;

/// What replicas cost.
enum class movement {
  gathered,  ///< parameters before use and gradients after it, hidden by the windows
  exposed,   ///< the same, and nothing hides it
  synced,    ///< parameters stay; gradients are all-reduced, hidden by the window
  sliced     ///< every expert is cut over all devices; who computes with one gathers all of it
};

/// How long replicas live: over the whole iteration, or only about as long as their layer runs.
enum class lifetime { iteration, layer };

/// What a device keeps with a replica.
enum class replica_state { parameters, optimizer_too };

/// What a policy's answers cost.
struct traits {
  movement moves = movement::gathered;
  fssdp::gathers often = fssdp::gathers::once;
  lifetime replicas = lifetime::iteration;
  replica_state keeps = replica_state::parameters;
};

/// Who owns which experts: blocks; or by load, for all layers at once (Algorithm 2), where the
/// `overlap` hottest of each layer get replicas anyway, or where nothing does.
enum class sharding { blocks, by_load, by_load_alone };

/// A policy is a value; its function is pure.
struct policy {
  std::string_view name;
  std::string_view about;  ///< one line
  /// It chooses from; the cheapest by the real counts is taken.
  layer_answers (*answers)(layer_question const&);
  traits costs = {};
  sharding shards = sharding::blocks;
};

}  // namespace sim
