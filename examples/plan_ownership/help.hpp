// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options: the schema of question and answer.
#pragma once

namespace ownership::detail {

inline constexpr auto about =
    "Chooses owners for items of any size: experts, embeddings, or matrices that an optimizer "
    "needs\n"
    "whole. Reads a question in JSON and prints the answer in JSON. Equal questions have equal\n"
    "answers.";

inline constexpr auto footer =
    R"(The question is an object. Ranks, items, and name and bytes of each item are required.
Defaults of the others are in parentheses. Unknown keys are an error.
  "ranks": N
  "nodes": N                   consecutive ranks share a node, as evenly as possible (1)
  "node_of": [N, ...]          instead of "nodes": the node of each rank
  "nic_per": "rank" or "node"  what has an interface to other nodes ("rank")
  "nic_bytes_per_second": [X]  bandwidth of the interface of each rank (all equal)
  "items": [                   in any order
    {"name": "...",            unique
     "bytes": N,               parameters, and all that moves with them
     "step_cost": N,           cost of its optimizer step, in any unit (0)
     "load": N,                tokens that it gets, if it is an expert (0)
     "owner": N or null,       the rank that owns it now; null: no rank (null)
     "on_ranks": [N, ...],     only these ranks may own it (all)
     "same_node": true}]       it must stay on its node (false)
  "together": [["a", "b"]]     sets of names; one rank owns all items of a set
  "apart": [["a", "c"]]        sets of names; no rank owns two items of a set
  "near": [["a", "d"]]         sets of names; placed on one node if that costs nothing
  "weights": {"bytes": X, "step_cost": X, "load": X, "interface": X}
                               how much each counts (1); 0: not at all
  "price_per_byte": X          cost of moving a byte, in units of fullness (0)
  "most_moved_bytes": N        limit on moved bytes, except for moves that constraints force (none)
  "precision": X               smaller relative gains are ignored (0.001)
  "trials": N                  how long to search (4000000)
  "exact_items": N             with at most so many items the optimum is found (20)

The answer is an object.
  "owners": {"name": N}        the owner of each item
  "moves": [{"name": "...", "from": N, "to": N, "bytes": N}]
  "moved_bytes": N             bytes of all moves
  "forced_bytes": N            bytes of the moves that constraints force
  "fullness": X                of the fullest rank or interface: its bytes, step cost or load over
                               a fair share; 1 is perfectly even
  "bound": X                   a lower bound of fullness for any owners
  "most": {"bytes": N, "step_cost": N, "load": N}
                               the largest amount of each on a rank
  "near_sets": N               sets of "near" that are on one node

Exit status: 0; 1 with an error that names what is impossible; 2 for a wrong command line.

Examples
  plan_ownership question.json > answer.json
  echo '{"ranks": 2, "items": [{"name": "a", "bytes": 3}, {"name": "b", "bytes": 5}]}' |
    plan_ownership)";

}  // namespace ownership::detail
