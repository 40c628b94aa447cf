// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace inspect::detail {

inline constexpr auto about =
    R"(Shows a plan of fssdp: which rank sends which piece of which expert to which rank, and when.
Ports are ideal. Nothing is sent: fssdp::simulate computes the times.)";

inline constexpr auto footer =
    R"(Every expert has one owner. Other ranks hold replicas of it (placement). A plan is a list of
transfers from the owners to all holders. Read backwards, it reduces gradients to the owners.

Cases: who holds an expert besides its owner
  pairs      for each expert, 2 random ranks
  hot        for 1/16 of the experts (at least one), all ranks; for the others, none
  hot-node   as hot, and node 0 owns all hot experts
  zipf       the replicas that Algorithm 1 (sparse_materialization, t = experts / 4, m = 4) chooses
             when the i-th most loaded expert has 1 / i of the tokens of the first
  random     for each expert, 0 to ranks / 3 random ranks

Plans
  direct     owners send whole experts to all holders
  chain      make_plan: whole experts enter each node once and spread there, or go direct where
             that is faster
  scheduled  schedule: pieces, along trees that keep the ports busy; ranks may relay

Topology: a rank has a port inside its node, and an interface to other nodes, alone or together with
its node. A port sends one piece and receives one piece at a time. A message occupies both its ports
for another 0.5 us, and arrives one latency after they are free.

Columns of the transfers
  round      the batch in which it is sent, by communicators that exchange one batch after the other
  start      when both its ports begin
  arrival    when the receiver has it and can pass it on
  after      the transfer (its #) that brings the piece to the sender; -: the sender owns it
Columns of the ranks
  relayed    bytes that it passes on without holding their expert
  busy       share of the whole time in which a port sends (out) or receives (in)

The SVG has a row for each port and direction. A transfer is one bar in the row of the sending port
and one in the row of the receiving port, in the colour of its expert. The number in a bar is the
rank at the other end. Bars with a dark edge are sent by ranks that relay.

JSON has for each transfer: chunk (expert, slice), piece, src, dst, bytes, round, start_us,
arrival_us and depends_on, the position of the transfer that it waits for, or null.

Examples
  inspect_plan --ranks 8 --nodes 2 --case zipf --svg plan.svg
  inspect_plan --case hot --plan chain --nic-per node --all
  inspect_plan --ranks 16 --nodes 4 --case pairs --json > plan.json)";

}  // namespace inspect::detail
