// SPDX-License-Identifier: Apache-2.0
/// What --help says besides the options.
#pragma once

namespace perf::detail {

inline constexpr auto about =
    R"(Measures the sparse collectives of fssdp. A gather (ag) sends experts from their owners to
all ranks that hold a replica. A reduction (rs) sends partial gradients back, and sums them. The
same is measured for arrays of which each rank owns a block. Beside each time stands the best that
this machine could do. Ranks are
  thread  threads of this process
  mpi     processes
  cuda    devices of this process, which read each other's memory. If there are more ranks than
          devices, ranks share devices
  nccl    devices of this process over NCCL, one for each rank)";

inline constexpr auto footer =
    R"(Cases: who holds an expert besides its owner
  pairs     for each expert, 2 random ranks
  hot       for 1/16 of the experts (at least one), all ranks; for the others, none
  hot-node  as hot, and node 0 owns all hot experts
  zipf      the replicas that Algorithm 1 (sparse_materialization, t = experts / 4, m = 4) chooses
            when the i-th most loaded expert has 1 / i of the tokens of the first
  random    for each expert, 0 to ranks / 3 random ranks
Cases of arrays (all_gather_v, reduce_scatter_v): every rank owns a block, and gets all (ag)
  blocks       all blocks have the same length
  zipf-blocks  as many bytes in total; the block of rank r is 1 / (r + 1) as long as that of rank 0

Columns
  bytes       of one expert or average block. There are `chunks` of them, and `replicas` copies on
              other ranks
  time        from the start of the first rank to the end of the last; the median of --iters calls.
              Between devices: the time between two events on the slowest rank's stream, as devices
              have no common clock and the host would notice the end too late
  algbw       bytes x replicas / time
  busbw       bytes through the busiest port / time. The busiest port is the most that any rank
              sends or receives. Compare this with the bandwidth of a link
  efficiency  time of the bound / time
  bound       the least time that this machine needs, measured in turns with the collective; the
              median over the turns
                threads, ag    copies of the same bytes between the same buffers by as many
                               threads: memcpy or non-temporal, whichever is faster
                threads, rs    the fastest of three loops that form the same sums
                processes      the busiest port, at the rate of MPI_Sendrecv in this run: of all
                               ranks of a host at once, and of all hosts, whose ranks share a NIC.
                               Inside a host the rate of one rank that copies alone, if it is
                               higher: ranks read each other's buffers, unless --messages is given
                nccl           the busiest port, at the rate at which each device copies from the
                               next one, all at once
                cuda           copies of the same bytes (ag) or kernels that form the same sums
                               (rs). On one device also copies that read and write as much memory:
                               (k + 1) S bytes for a sum of k partials of S bytes
  wire        bytes that all ranks together send in one call
  plan        time in which one rank makes the plan
  wrong       elements with a wrong value, with --check

Baselines, measured in turns with the collective
  direct          fssdp with a plan in which every owner sends to all holders
  broadcast       one broadcast (rs: reduction) per expert between its holders, along a binomial
                  tree, one expert after the other, between the same ranks. Over NCCL one
                  ncclBroadcast (rs: ncclReduce), with a communicator for each set of holders
  dense           fssdp with every expert on every rank
  neighbor        one MPI_Neighbor_alltoallv (rs: then sums), between processes
  mpi-broadcast   one MPI_Bcast (rs: MPI_Reduce) per expert, one after the other
  gloo            one gloo::alltoallv (rs: then sums) over TCP, between the same threads
  gloo-broadcast  one gloo::broadcast (rs: gloo::reduce) per expert, one after the other
  mpi-v           MPI_Allgatherv (rs: MPI_Reduce_scatter), for blocks
  gloo-v          gloo::allgatherv (rs: gloo::ReduceScatterHalvingDoubling), for blocks
  Communicators, graphs and contexts are made before the clock starts. A line below the table says
  how long that took for MPI and NCCL. Baselines of MPI need mpirun with as many processes as ranks:
  the first process runs the threads, and the others sleep meanwhile. With --backend mpi every
  process is a rank, and broadcast means mpi-broadcast. Between devices there are none, direct,
  broadcast and dense. Elements of any type can be moved. MPI and Gloo sum fp32 and fp64;
  ncclReduce also sums bf16 and fp16.

The exit status is 1 if, with --check, an element is wrong or a call is faster than its bound, or if
the results cannot be printed.

Examples
  fssdp_perf --case all --bytes 1M,4M,16M --check
  fssdp_perf --collective rs --case pairs --dtype bf16 --baseline broadcast
  fssdp_perf --collective ag,rs --case all --dtype fp8_e4m3 --check
  mpirun -np 4 fssdp_perf --ranks 4 --case all --baseline neighbor --json > neighbor.json
  mpirun -np 4 fssdp_perf --backend mpi --ranks 4 --case all --baseline broadcast
  fssdp_perf --backend cuda --ranks 8 --case all --collective ag,rs --bytes 16M --check)";

}  // namespace perf::detail
