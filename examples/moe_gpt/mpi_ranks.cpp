// SPDX-License-Identifier: Apache-2.0
// The rank that this process is, of those that mpirun has started.
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "fssdp/comm/mpi.hpp"
#include "rank_world.hpp"
#include "topology_of.hpp"
#include "train_in_groups.hpp"
#include "train_on.hpp"

namespace moe_gpt {
namespace {

/// "trace.json" of rank 3 is "trace.3.json".
[[nodiscard]] std::filesystem::path file_of(fssdp::rank_id rank, std::filesystem::path file) {
  auto const extension = file.extension();
  return file.replace_extension(std::to_string(rank.value()) + extension.string());
}

class mpi_ranks : public rank_world {
 public:
  explicit mpi_ranks(options const& asked)
      : world_{{.deadline = deadline_of(asked), .shared = &memory_}}, chosen_{asked} {
    auto const topo = world_.topo();
    if (asked.ranks != any_number && asked.ranks != topo.ranks())
      throw std::invalid_argument{"--ranks " + std::to_string(asked.ranks) + ": there are " +
                                  std::to_string(topo.ranks()) +
                                  " processes; expected mpirun -np " + std::to_string(asked.ranks)};
    if (asked.nodes != any_number && asked.nodes != topo.nodes())
      throw std::invalid_argument{"--nodes " + std::to_string(asked.nodes) +
                                  ": the processes run on " + std::to_string(topo.nodes()) +
                                  "; expected that, or none with --backend mpi"};
    chosen_.ranks = topo.ranks();
    chosen_.nodes = topo.nodes();
    auto me = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    has_rank_0_ = me == 0;
    validate(chosen_);
    auto const expected = topology_of(chosen_);
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks()))
      if (topo.node(rank) != expected.node(rank))
        throw std::invalid_argument{
            "rank " + std::to_string(rank.value()) + " is on host " +
            std::to_string(topo.node(rank).value()) + ", expected " +
            std::to_string(expected.node(rank).value()) +
            ": as many processes on each host, in a row (mpirun --map-by ppr:N:node)"};
  }

  [[nodiscard]] options const& chosen() const override { return chosen_; }
  [[nodiscard]] bool has_rank_0() const override { return has_rank_0_; }

  run_record train(corpus const& text,
                   std::function<void(step_record const&)> const& observe) override {
    auto result = run_record{};
    world_.run([&](fssdp::mpi_communicator& comm) {
      auto const train = [&](fssdp::trace_output const& trace) {
        result = train_in_groups(comm, {.chosen = chosen_,
                                        .text = text,
                                        .trace = trace,
                                        .observe = observe,
                                        .memory = &memory_,
                                        .stop = [] { (void)std::raise(SIGKILL); }});
        has_rank_0_ = result.is_of_first_rank;
      };
      if (chosen_.trace.empty()) return train({});
      auto trace = fssdp::trace_recorder{{.rank = comm.rank()}};
      train(&trace);
      write_trace(file_of(comm.rank(), chosen_.trace), std::span{&trace, 1});
    });
    return result;
  }

 private:
  fssdp::shared_memory memory_;  // ranks of a host read each other's experts
  fssdp::mpi_world world_;
  options chosen_;
  bool has_rank_0_ = false;
};

}  // namespace

std::unique_ptr<rank_world> join_processes(options const& chosen) {
  return std::make_unique<mpi_ranks>(chosen);
}

}  // namespace moe_gpt
