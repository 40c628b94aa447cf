// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace inspect::detail {

inline constexpr auto about =
    "Shows a plan of fssdp: which rank sends which piece of which expert to whom, and when on "
    "ideal\n"
    "ports. Nothing is sent; the plan is played through by fssdp::simulate.";

inline constexpr auto footer =
    "Every expert has one owner; other ranks hold replicas of it (placement). A plan is the list "
    "of\n"
    "transfers that brings the experts from their owners to all holders; read backwards it "
    "reduces\n"
    "their gradients.\n"
    "\n"
    "Cases: who holds an expert besides its owner\n"
    "  pairs      2 random ranks, for every expert\n"
    "  hot        everybody, for 1/16 of the experts (at least one); nobody, for the others\n"
    "  hot-node   the same, and all hot experts are owned by node 0\n"
    "  zipf       what Algorithm 1 (sparse_materialization, t = experts / 4, m = 4) gives "
    "replicas\n"
    "             to when the i-th most loaded expert has 1 / i of the tokens of the first\n"
    "  random     0 to ranks / 3 random ranks, for every expert\n"
    "\n"
    "Plans\n"
    "  direct     owners send whole experts to all holders\n"
    "  chain      make_plan: whole experts enter each node once and spread there, or go direct "
    "where\n"
    "             that would be slower\n"
    "  scheduled  schedule: pieces, along trees that keep the ports busy; ranks may relay\n"
    "\n"
    "Topology: a rank has a port inside its node and an interface, alone or with its node, to the\n"
    "others. Each sends one piece and receives one at a time; a message costs 0.5 us of both its\n"
    "ports, and arrives a latency after they are free.\n"
    "\n"
    "Columns of the transfers\n"
    "  round      in which batch it goes where communicators exchange one batch after the other\n"
    "  start      both its ports begin\n"
    "  arrival    the receiver has it and can pass it on\n"
    "  after      the transfer (its #) that brings the piece to the sender; -: the sender owns it\n"
    "Columns of the ranks\n"
    "  relayed    bytes that it passes on without holding their expert\n"
    "  busy       share of the whole time in which a port sends (out) or receives (in)\n"
    "\n"
    "The SVG has a row for every port and direction. Each transfer is a bar in the row of the\n"
    "port that sends it and one in that of the port that receives it, in the colour of its "
    "expert;\n"
    "the number in it is the rank at the other end. Bars with a dark edge leave ranks that relay.\n"
    "\n"
    "JSON: of each transfer chunk (expert, slice), piece, src, dst, bytes, round, start_us,\n"
    "arrival_us and depends_on, the position of the transfer that it waits for, or null.\n"
    "\n"
    "Examples\n"
    "  inspect_plan --ranks 8 --nodes 2 --case zipf --svg plan.svg\n"
    "  inspect_plan --case hot --plan chain --nic-per node --all\n"
    "  inspect_plan --ranks 16 --nodes 4 --case pairs --json > plan.json";

}  // namespace inspect::detail
