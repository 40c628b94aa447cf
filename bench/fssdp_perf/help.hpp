// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace perf::detail {

inline constexpr auto about =
    "Measures the two sparse collectives of fssdp, between threads of this process or between\n"
    "processes (--backend mpi): experts go from their owners to all that hold a replica (ag), or\n"
    "partial gradients back and are summed (rs). Beside each time stands what the machine could "
    "do\n"
    "at best.";

inline constexpr auto footer =
    "Cases: who holds an expert besides its owner\n"
    "  pairs     2 random ranks, for every expert\n"
    "  hot       everybody, for 1/16 of the experts (at least one); nobody, for the others\n"
    "  hot-node  the same, and all hot experts are owned by node 0\n"
    "  zipf      what Algorithm 1 (sparse_materialization, t = experts / 4, m = 4) gives replicas\n"
    "            to when the i-th most loaded expert has 1 / i of the tokens of the first\n"
    "  random    0 to ranks / 3 random ranks, for every expert\n"
    "\n"
    "Columns\n"
    "  bytes       of one expert; of all there are `chunks`, with `replicas` copies elsewhere\n"
    "  time        from the first rank's begin to the last rank's end; the median of --iters "
    "calls\n"
    "  algbw       bytes x replicas / time\n"
    "  busbw       the bytes through the busiest port / time: of all ranks, the most that one\n"
    "              sends or receives. Hardware limits it, so compare it with a link's bandwidth\n"
    "  efficiency  the bound's time / time\n"
    "  bound       what is faster of memcpy and non-temporal copies of the same bytes between the\n"
    "              same buffers by as many threads, each with an equal share (ag), or the\n"
    "              fastest of three loops that form the same sums (rs). Measured in turns with\n"
    "              the collective; the median of the better one of each turn. Between processes\n"
    "              the port that has most to do, at the rate that MPI_Sendrecv attains in this "
    "run:\n"
    "              of all ranks of a host at once, and of all hosts, whose ranks share one NIC;\n"
    "              inside a host at that of one rank that copies alone, if it is higher: ranks\n"
    "              read each other's buffers in place, unless --messages says not\n"
    "  wire        bytes that all ranks together send in one call\n"
    "  plan        the time in which one rank makes the plan\n"
    "  wrong       elements that differ from what they should be, with --check\n"
    "\n"
    "Baselines, measured in turns with the collective\n"
    "  direct          fssdp with a plan in which every owner sends to all holders\n"
    "  broadcast       one broadcast (rs: one reduction) over the holders of each expert along a\n"
    "                  binomial tree, expert after expert, between the same threads\n"
    "  dense           fssdp with every expert everywhere\n"
    "  neighbor        one MPI_Neighbor_alltoallv (rs: and sums), between processes\n"
    "  mpi-broadcast   one MPI_Bcast (rs: MPI_Reduce) per expert, expert after expert\n"
    "  gloo            one gloo::alltoallv (rs: and sums) over TCP, between the same threads\n"
    "  gloo-broadcast  one gloo::broadcast (rs: gloo::reduce) per expert, expert after expert\n"
    "  Communicators, graphs and contexts are made before the clock starts. Those of MPI want the\n"
    "  program started under mpirun with as many processes as ranks: the first one runs the\n"
    "  threads, the others sleep meanwhile. With --backend mpi every process is a rank; broadcast\n"
    "  is then mpi-broadcast, and what its communicators took is said below the table.\n"
    "\n"
    "The exit status is 1 if with --check an element is wrong or a call is faster than its bound.\n"
    "\n"
    "Examples\n"
    "  fssdp_perf --case all --bytes 1M,4M,16M --check\n"
    "  fssdp_perf --collective rs --case pairs --dtype bf16 --baseline broadcast\n"
    "  mpirun -np 4 fssdp_perf --ranks 4 --case all --baseline neighbor --json > neighbor.json\n"
    "  mpirun -np 4 fssdp_perf --backend mpi --ranks 4 --case all --baseline broadcast";

}  // namespace perf::detail
