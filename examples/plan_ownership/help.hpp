// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options: the schema of question and answer.
#pragma once

namespace ownership::detail {

inline constexpr auto about =
    "Chooses owners for experts of any size, matrices that an optimizer needs whole, embeddings:\n"
    "the question is JSON, and so is the answer. Equal questions have equal answers.";

inline constexpr auto footer =
    R"(The question: an object. All but ranks and items may be left out; other keys are refused.
  "ranks": N
  "nodes": N                   that consecutive ranks share, as evenly as it goes; 1
  "node_of": [N, ...]          or the node of each rank
  "nic_per": "rank" or "node"  who has an interface to other nodes; "rank"
  "nic_bytes_per_second": [X]  of each rank: how fast its interface is; all are alike
  "items": [                   in any order; each
    {"name": "...",            unlike all others
     "bytes": N,               of parameters and what stays and moves with them
     "step_cost": N,           of its optimizer step, in any unit; 0
     "load": N,                tokens that it draws, if it is an expert; 0
     "owner": N or null,       the rank that has it now; null: none has
     "on_ranks": [N, ...],     only these may own it
     "same_node": true}]       it stays on the node where it is
  "together": [["a", "b"]]     sets of names: one owner for all of a set
  "apart": [["a", "c"]]        sets of which no rank owns two
  "near": [["a", "d"]]         sets that come to one node where that costs nothing
  "weights": {"bytes": X, "step_cost": X, "load": X, "interface": X}
                               how much each counts; 1, and 0 is not at all
  "price_per_byte": X          what a moved byte costs, in fullness; 0
  "most_moved_bytes": N        no more moves, but for what constraints force
  "precision": X               a gain below that share is none; 0.001
  "trials": N                  how long is searched; 4000000
  "exact_items": N             up to so many items the best is found; 20

The answer: an object.
  "owners": {"name": N}        the owner of each item
  "moves": [{"name": "...", "from": N, "to": N, "bytes": N}]
  "moved_bytes": N             of these
  "forced_bytes": N            of what constraints do not let stay
  "fullness": X                of the fullest rank or interface: its share of bytes, step cost or
                               load over what is fair; 1 is even
  "bound": X                   no owners have less
  "most": {"bytes": N, "step_cost": N, "load": N}
                               the most that a rank has of each
  "near_sets": N               sets of near that are on one node

Exit status: 0, or 1 and an error that names what cannot be, or 2 for a wrong command line.

Examples
  plan_ownership question.json > answer.json
  echo '{"ranks": 2, "items": [{"name": "a", "bytes": 3}, {"name": "b", "bytes": 5}]}' |
    plan_ownership)";

}  // namespace ownership::detail
