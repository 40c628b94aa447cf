// SPDX-License-Identifier: Apache-2.0
/// One rank of a process group of PyTorch over NCCL that is a process, among others that may share
/// its device (nccl_processes.sh). Gathers and reductions leave the bits that they leave on
/// threads: over the communicator that torch lends, with this library's kernels, and over torch's
/// own calls and operators. Parameters of modules are gathered where they are; a materializer has
/// its memory from torch's allocator. usage: gpu_torch_process RANK RANKS FILE   in FILE the ranks
/// meet
#include "fssdp/comm/c10d.hpp"  // ahead of torch's own headers

#include "fssdp/comm/c10d/nccl_of_group.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/all.hpp"
#include "fssdp/comm/cuda/cuda_side_stream.hpp"
#include "gpu/compare_with_threads.hpp"
#include "gpu_double/gpu_double.hpp"

namespace {

using fssdp::rank_id;
using group_pointer = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr auto instances = 20;

[[noreturn]] void wrong(std::string const& what) { throw std::runtime_error{what}; }

/// NCCL's, as init_process_group makes it. It has its communicator when it returns.
[[nodiscard]] group_pointer nccl_group(c10::intrusive_ptr<c10d::Store> const& store, int rank,
                                       int ranks, c10::Device device) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::minutes{1};
  auto const backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, ranks, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, ranks);
  group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::NCCL,
                    c10::intrusive_ptr<c10d::Backend>{backend});
  group->setDefaultBackend(c10d::ProcessGroup::NCCL);
  auto ones = std::vector{at::full({1}, 1.0, at::device(device).dtype(at::kFloat))};
  backend->allreduce(ones)->wait();
  if (ones[0].cpu().data_ptr<float>()[0] != static_cast<float>(ranks))
    wrong("an all-reduce of torch's gives another sum");
  return group;
}

/// With the stream that torch enqueues on.
struct operators_of_torch : fssdp::c10d_device_communicator {
  using fssdp::c10d_device_communicator::c10d_device_communicator;
  [[nodiscard]] static cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }
};

/// @returns how many transfers there were
template <class Comm>
int compare(Comm& comm, char const* over) {
  auto transfers = 0;
  gpu_tests::compare_with_threads(comm, instances, over, [&](fssdp::transfer_plan const& plan) {
    transfers += static_cast<int>(plan.transfers().size());
  });
  return transfers;
}

constexpr auto experts = 8;
constexpr auto sizes = std::array<std::int64_t, 2>{15, 6};

/// What all elements of a tensor of an expert are, of all layers one after the other.
[[nodiscard]] double value(std::size_t expert, std::size_t tensor) {
  return static_cast<double>(1 + expert + 16 * tensor);
}
void require_all(at::Tensor const& tensor, double expected, std::string const& what) {
  auto const here = tensor.to(at::kCPU, at::kDouble).contiguous();
  for (std::int64_t i = 0; i < here.numel(); ++i)
    if (here.data_ptr<double>()[i] != expected)
      wrong(what + " is " + std::to_string(here.data_ptr<double>()[i]) + "; expected " +
            std::to_string(expected));
}

/// Parameters of a rank: the first of each expert by itself, as in a ModuleList, the second
/// stacked.
struct rank_parameters {
  std::vector<at::Tensor> first, first_gradients;
  at::Tensor second, second_gradients;
  fssdp::torch_tensors weights, gradients;

  rank_parameters(std::vector<fssdp::chunk_id> const& owned, c10::Device device)
      : weights{device}, gradients{device} {
    auto const slots = static_cast<std::int64_t>(owned.size());
    auto const of = [&](at::ScalarType type) { return at::device(device).dtype(type); };
    second = at::empty({slots, 2, 3}, of(at::kBFloat16));
    second_gradients = at::zeros({slots, 2, 3}, of(at::kFloat));
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      auto const expert = owned[static_cast<std::size_t>(slot)].expert.index();
      first.push_back(at::full({5, 3}, value(expert, 0), of(at::kFloat)));
      first_gradients.push_back(at::zeros({5, 3}, of(at::kFloat)));
      second.select(0, slot).fill_(value(expert, 1));
    }
    weights.add("first", first).add("second", second);
    gradients.add("gradients of first", first_gradients)
        .add("gradients of second", second_gradients);
  }
};

/// A tensor around memory of the materializer's.
[[nodiscard]] at::Tensor around(void const* data, std::size_t elements, fssdp::dtype type,
                                c10::Device device) {
  return at::for_blob(const_cast<void*>(data), {static_cast<std::int64_t>(elements)})
      .options(at::device(device).dtype(fssdp::scalar_type_of(type)))
      .target_device(device)
      .make_tensor();
}

/// A training step on parameters of torch's, two layers, every expert everywhere.
template <class Comm>
void train(Comm& comm, c10::Device device) {
  auto const me = comm.rank();
  auto const layouts = fssdp::layer_stack<fssdp::table_layout>{std::vector(
      2, fssdp::as_table(fssdp::block_layout{{.experts = experts, .ranks = comm.size()}}))};
  auto const owned = layouts.owned(me);
  auto mine = rank_parameters{owned, device};
  auto memory = fssdp::torch_memory{device.type()};
  auto const elements = std::vector<std::size_t>{sizes.begin(), sizes.end()};
  auto of = fssdp::materializer{
      comm,
      fssdp::expert_shards{layouts, elements, mine.weights, mine.gradients},
      {.placement = fssdp::everywhere{}},
      {.replica_slots = 2 * experts, .partial_slots = 2 * experts, .memory = &memory}};
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(2)) {
    of.acquire(layer);
    for (auto const& expert : of.any_experts(layer))
      for (std::size_t k = 0; k < sizes.size(); ++k)
        require_all(around(expert.tensors[k].data, elements[k], expert.tensors[k].type, device),
                    value(layer.index() * experts + expert.id.index(), k),
                    "tensor " + std::to_string(k) + " of a replica");
    of.release(layer);
  }
  for (auto const layer : {fssdp::layer_id{1}, fssdp::layer_id{0}}) {
    of.acquire(layer, 0, fssdp::training_pass::backward);
    for (auto const& partial : of.any_partials(layer))
      around(partial.data, partial.slots * partial.stride, partial.type, device)
          .fill_(static_cast<double>(me.value() + 1));
    of.release(layer);
    of.reduce(layer);
  }
  of.step();
  auto const sum = comm.size() * (comm.size() + 1) / 2.0;
  for (auto const& gradient : mine.first_gradients) require_all(gradient, sum, "a gradient");
  require_all(mine.second_gradients, sum, "a gradient of the stacked tensor");
}

void run(int rank, int ranks, char const* file) {
  auto const device = c10::Device{c10::DeviceType::CUDA,
                                  static_cast<c10::DeviceIndex>(rank % c10::cuda::device_count())};
  auto const on_device = c10::cuda::CUDAGuard{device};
  auto const on_stream = c10::cuda::CUDAStreamGuard{c10::cuda::getStreamFromPool()};
  auto const store = c10::make_intrusive<c10d::FileStore>(file, ranks);
  auto const group = nccl_group(store, rank, ranks, device);
  auto transfers = std::array<int, 2>{};
  {
    auto lent = fssdp::nccl_of_group(group, {.kernels = gpu_double::kernels()});
    transfers[0] = compare(lent, "the communicator that torch lends");
    auto const computes = c10::cuda::CUDAStreamGuard{c10::cuda::getStreamFromPool()};
    auto aside = fssdp::cuda_side_stream{lent, computes.current_stream().stream()};
    train(aside, device);
    fssdp::synchronize(lent);
  }
  {
    auto over = operators_of_torch{group, device};
    transfers[1] = compare(over, "torch's operators");
    fssdp::synchronize(over);
  }
  if (rank == 0)
    std::printf(
        "%d ranks of a process group of torch: %d placements with %d transfers over the "
        "communicator that it lends, as many with %d over its own calls: the bits of threads; "
        "parameters of modules were gathered and reduced where they are\n",
        ranks, instances, transfers[0], transfers[1]);
}

}  // namespace

int main(int arguments, char** values) {
  if (arguments != 4) {
    std::fprintf(stderr, "usage: %s RANK RANKS FILE\n", values[0]);
    return 2;
  }
  auto code = 0;
  try {
    run(std::atoi(values[1]), std::atoi(values[2]), values[3]);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "rank %s: %s\n", values[1], error.what());
    code = 1;
  }
  std::fflush(nullptr);
  std::_Exit(code);  // what torch has of NCCL would wait for others as it is destroyed
}
