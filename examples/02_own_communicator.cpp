// SPDX-License-Identifier: Apache-2.0
// A framework that has its own way to send bytes needs no back end of fssdp. It writes a class with
// rank(), size() and exchange(post), the concept fssdp::communicator, and all of fssdp runs over
// it. Here the framework is Gloo if it is installed, and otherwise a pair of queues between any two
// threads. The adapters, each about 50 lines of code, are gloo_communicator and queue_communicator
// in the folder beside this file. They use the label of a batch, so that ranks which are in
// different collectives get an error and not each other's bytes.
//
//   02_own_communicator [ranks]
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include "02_own_communicator/on_all_ranks.hpp"
#include "fssdp/fssdp.hpp"
#include "program/standard_output.hpp"

#if defined(EXAMPLE_HAS_GLOO)
#include "02_own_communicator/gloo_communicator.hpp"
using host = gloo_host;
#else
#include "02_own_communicator/queue_communicator.hpp"
using host = queue_host;
#endif

namespace {

constexpr auto experts = 8;
constexpr auto elements = std::size_t{1000};  // parameters of one expert

// Small whole numbers, so that sums are exact in any order.
float parameter(fssdp::expert_id expert, std::size_t i) {
  return static_cast<float>(expert.index() * elements + i);
}
float partial_gradient(fssdp::rank_id rank, fssdp::expert_id expert, std::size_t i) {
  return static_cast<float>(rank.value() + 1) * parameter(expert, i);
}

/// The results of one rank.
struct report {
  std::size_t held = 0;
  std::size_t owned = 0;
  fssdp::exchange_counts gather = {};
  fssdp::exchange_counts reduction = {};
  std::size_t wrong = 0;  // elements that are not what they should be
};

/// One MoE layer, as in the first program, with a check after each of the two collectives.
report one_layer(fssdp::communicator auto& host_comm) {
  auto comm = fssdp::counting{host_comm};  // an adaptor takes any communicator, this one too
  auto const me = comm.rank();
  auto const layout = fssdp::block_layout{{.experts = experts, .ranks = comm.size()}};
  auto const loads = fssdp::sum_loads(comm, fssdp::expert_loads{3, 90, 5, 2, 40, 1, 7, 2});
  auto const where = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2}(loads, layout);
  auto const plan = fssdp::make_plan(layout, where);
  auto told = report{.held = plan.materialized(me).size(), .owned = plan.owned_count(me)};

  auto weights = fssdp::make_shard<float>(layout, me, elements);
  auto replicas = fssdp::make_replicas<float>(plan, me, elements);
  for (auto const [expert, slice] : layout.owned(me))
    for (std::size_t i = 0; i < elements; ++i)
      weights.tensors().front()[plan.owner_slot(expert)][i] = parameter(expert, i);

  comm.reset();
  fssdp::sparse_all_gather(comm, plan, weights, replicas);
  told.gather = comm.counts();

  auto const computed = fssdp::view_experts(plan, me, weights, replicas);
  auto partials = fssdp::make_partials<float>(plan, me, elements);
  auto gradients = fssdp::make_shard<float>(layout, me, elements);
  for (std::size_t e = 0; e < computed.size(); ++e)
    for (std::size_t i = 0; i < elements; ++i) {
      auto const id = computed[e].id;
      if (computed[e].tensors.front()[i] != parameter(id, i)) ++told.wrong;
      partials.tensors().front()[e][i] = partial_gradient(me, id, i);
    }

  comm.reset();
  fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
  told.reduction = comm.counts();

  for (auto const [expert, slice] : layout.owned(me))
    for (std::size_t i = 0; i < elements; ++i) {
      auto sum = 0.0F;
      for (auto const rank : where.holders(expert)) sum += partial_gradient(rank, expert, i);
      if (gradients.tensors().front()[plan.owner_slot(expert)][i] != sum) ++told.wrong;
    }
  return told;
}

/// Runs the layer on every rank of the host.
std::vector<report> run(int ranks) {
  auto framework = host{ranks};
  auto reports = std::vector<report>{};
  for (auto& rank : on_all_ranks(framework, [](auto& comm) { return one_layer(comm); }))
    reports.push_back(rank.get());
  return reports;
}

/// A table of what moved; returns how many elements are wrong.
std::size_t print(std::vector<report> const& reports) {
  auto wrong = std::size_t{0};
  std::printf("%zu ranks over %s, %d experts of %zu bytes\n", reports.size(), host::name, experts,
              elements * sizeof(float));
  std::printf("%4s %6s %6s %13s %13s %13s %13s %6s\n", "rank", "owns", "holds", "gather: sent",
              "received", "reduce: sent", "received", "wrong");
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    auto const& told = reports[rank];
    std::printf("%4zu %6zu %6zu", rank, told.owned, told.held);
    for (auto const& counts : {told.gather, told.reduction})
      std::printf(" %13llu %13llu", static_cast<unsigned long long>(counts.bytes_sent),
                  static_cast<unsigned long long>(counts.bytes_received));
    std::printf(" %6zu\n", told.wrong);
    wrong += told.wrong;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  auto const ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  if (ranks < 1) throw std::invalid_argument{"the number of ranks should be 1 or more"};
  auto const wrong = print(run(ranks));
  return program::output_was_taken("02_own_communicator") && wrong == 0 ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "02_own_communicator: %s\n", error.what());
  return 1;
}
