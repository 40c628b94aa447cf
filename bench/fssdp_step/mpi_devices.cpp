// SPDX-License-Identifier: Apache-2.0
// Emulated devices that are the processes which mpirun has started.
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "device_group.hpp"
#include "emulated_device.hpp"
#include "fssdp/comm/mpi.hpp"
#include "iterations.hpp"

namespace step {
namespace {

class mpi_devices : public device_group {
 public:
  explicit mpi_devices(std::chrono::milliseconds deadline) : world_{{.deadline = deadline}} {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    auto const topo = world_.topo();
    auto const even = fssdp::topology{{.nodes = topo.nodes(), .ranks = topo.ranks()}};
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks()))
      if (topo.node(rank) != even.node(rank))
        throw std::invalid_argument{
            "--backend mpi: rank " + std::to_string(rank.value()) + " is on host " +
            std::to_string(topo.node(rank).value()) + "; expected " +
            std::to_string(even.node(rank).value()) +
            ", as many processes on each host, in a row (mpirun --map-by ppr:N:node)"};
    shape_ = {topo.nodes(), topo.ranks()};
  }

  [[nodiscard]] bool has_rank_0() const override { return rank_ == 0; }
  [[nodiscard]] std::optional<node_shape> nodes() const override { return shape_; }

  measurement measure(job const& what, std::filesystem::path const& timeline) override {
    auto of = what;
    of.links_are_real = true;
    of.ranks_are_processes = true;
    of.emulates = whole_bytes(of.emulates, of.of.where->rates.token_bytes);
    auto const first = first_owners(of);
    auto shared = shared_work{};
    auto all = all_iterations{};
    world_.run([&](fssdp::mpi_communicator& comm) {
      auto experts = comm.duplicate();
      auto trace = std::optional<fssdp::trace_recorder>{};
      if (!timeline.empty()) trace.emplace(fssdp::trace_options{.rank = comm.rank()});
      auto device = emulated_device{of.emulates.slow, fssdp::communicator_ref{experts},
                                    trace.has_value() ? &*trace : nullptr};
      run_rank({fssdp::communicator_ref{comm}, fssdp::communicator_ref{comm}}, device, of, shared,
               first, all);
      if (trace.has_value() && has_rank_0())
        write_timeline(timeline, std::span{&*trace, 1}, all.last_begin);
    });
    return has_rank_0() ? summed_up(of, all) : measurement{};
  }

 private:
  fssdp::mpi_world world_;
  int rank_ = 0;
  node_shape shape_ = {};
};

}  // namespace

std::unique_ptr<device_group> join_processes(std::chrono::milliseconds deadline) {
  return std::make_unique<mpi_devices>(deadline);
}

}  // namespace step
