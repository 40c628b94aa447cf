// SPDX-License-Identifier: Apache-2.0
/// Devices that run out of memory: what is thrown, what the other ranks get, and that all goes
/// on when there is memory again.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>

#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "gpu_double/gpu_double.hpp"

namespace support {

/// A collective for which devices need scratch: experts travel in pieces, which ranks pass on.
struct relaying_plan {
  static constexpr int ranks = 6;
  static constexpr auto elements = std::size_t{1500};

  fssdp::block_layout layout{{.experts = ranks, .ranks = ranks}};
  fssdp::transfer_plan plan = schedule(
      make_plan(layout, fssdp::everywhere{}(layout), fssdp::topology{{.nodes = 3, .ranks = ranks}}),
      48'000'000, {.piece_bytes = 16'000'000});
};

/// The buffers of a rank, and the rest of its device, which may be full.
class full_device {
 public:
  explicit full_device(fssdp::rank_id rank)
      : rank_{rank}, arena_{(2 + relaying_plan::ranks) * slot * sizeof(float), rank} {
    for (auto& weight : tensor(0, 1)[0]) weight = static_cast<float>(rank.value());
  }
  /// Takes all that the device has.
  void fill() {
    auto left = std::size_t{0};
    auto all = std::size_t{0};
    cudaMemGetInfo(&left, &all);
    rest_.emplace(left, rank_);
  }
  void empty() { rest_.reset(); }

  template <class Comm>
  void gather(Comm& comm, fssdp::transfer_plan const& plan) {
    fssdp::sparse_all_gather(comm, plan, tensor(0, 1), tensor(2, relaying_plan::ranks));
  }
  template <class Comm>
  void reduce(Comm& comm, fssdp::transfer_plan const& plan) {
    fssdp::sparse_reduce_scatter(comm, plan, tensor(2, relaying_plan::ranks), tensor(1, 1));
    comm.synchronize();
  }
  [[nodiscard]] bool is_right() {
    for (auto const value : tensor(1, 1)[0])
      if (value != static_cast<float>(relaying_plan::ranks * rank_.value())) return false;
    return true;
  }

 private:
  static constexpr auto slot = relaying_plan::elements;

  [[nodiscard]] fssdp::expert_tensor<float> tensor(std::size_t first, std::size_t slots) {
    auto* const begin = reinterpret_cast<float*>(arena_.bytes().data());
    return {begin + first * slot, slots, slot};
  }

  fssdp::rank_id rank_;
  fssdp::cuda_memory arena_;  // weights, gradients, replicas
  std::optional<fssdp::cuda_memory> rest_;
};

/// What became of a rank.
struct full_device_report {
  std::exception_ptr thrown;
  bool has_failed = false;
  bool is_right = false;
};
/// All ranks gather and reduce; the device of rank 1 is full when it reduces.
/// @param again whether it is emptied, and rank 1 calls again; else it leaves
template <class Comm>
[[nodiscard]] full_device_report use_full_device(Comm& comm, relaying_plan const& of, bool again) {
  auto report = full_device_report{};
  auto device = full_device{comm.rank()};
  device.gather(comm, of.plan);
  comm.synchronize();
  if (comm.rank() == fssdp::rank_id{1}) device.fill();
  try {
    device.reduce(comm, of.plan);
  } catch (fssdp::out_of_memory const&) {
    report.thrown = std::current_exception();
    report.has_failed = comm.has_failed();
    if (!again) throw;
    device.empty();
    device.reduce(comm, of.plan);
  }
  report.is_right = device.is_right();
  return report;
}

}  // namespace support
