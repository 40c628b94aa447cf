// SPDX-License-Identifier: Apache-2.0
/// A measurement on ranks that are devices of this process, or share them, over any back end.
#pragma once

#include <cuda_runtime_api.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda_device.hpp"
#include "fssdp/comm/cuda/cuda_side_stream.hpp"
#include "fssdp/core/error.hpp"
#include "iterations.hpp"

namespace step {

/// How many there are; none also where there is no driver.
[[nodiscard]] inline int device_count() {
  auto count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}
/// How many, and what the first one is called.
[[nodiscard]] inline std::string device_names(int count) {
  auto first = cudaDeviceProp{};
  fssdp::detail::cuda_require(cudaGetDeviceProperties(&first, 0), {}, "cudaGetDeviceProperties");
  return std::to_string(count) + " x " + first.name;
}

namespace detail {

/// All iterations of one rank.
template <class Comm>
void run_on_device(Comm& tokens, cudaMemPool_t pool, job const& of, shared_work& shared,
                   layouts const& first, fssdp::trace_recorder* trace, all_iterations& all) {
  auto const moving = fssdp::make_cuda_stream(tokens.rank());
  auto experts = tokens.duplicate(moving.get());
  auto beside = fssdp::on_side_stream(experts, tokens.stream());
  {
    auto device = cuda_device{
        {.rank = tokens.rank(),
         .computing = tokens.stream(),
         .moving = moving.get(),
         .pool = pool,
         .make_materializer =
             [&](fssdp::expert_shards shards, fssdp::materializer_policy policy,
                 fssdp::materializer_options const& options) {
               return fssdp::materializer{beside, std::move(shards), std::move(policy), options};
             },
         .await_computing = [&] { tokens.synchronize(); },
         .await_moving = [&] { experts.synchronize(); }},
        shape_of(of, first.slices()),
        first.layers(),
        first.experts_per_layer(),
        trace};
    run_rank({fssdp::communicator_ref{tokens}, fssdp::communicator_ref{tokens}}, device, of, shared,
             first, all);
  }
  if constexpr (requires { experts.close(); }) experts.close();
}

}  // namespace detail

/// @param world runs a function on every rank, whose communicator is bound to a stream
/// @param pool_of tells the memory of a rank: null: CUDA's own
/// @throws std::runtime_error if a device has too little memory, or finds wrong bytes
template <class World, class PoolOf>
[[nodiscard]] measurement measure_on(World& world, PoolOf pool_of, job const& what,
                                     std::filesystem::path const& timeline) {
  constexpr auto bytes_of_load = std::size_t{16};  // of a device at once: rows are multiples
  auto of = what;
  of.links_are_real = true;
  of.emulates = whole_bytes(of.emulates, of.of.where->rates.token_bytes, bytes_of_load);
  auto const first = first_owners(of);
  auto shared = shared_work{};
  auto all = all_iterations{};
  auto traces = std::vector<fssdp::trace_recorder>{};
  if (!timeline.empty())
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(first.ranks()))
      traces.emplace_back(fssdp::trace_options{.rank = rank});
  try {
    world.run([&](auto& comm) {
      auto* const trace = traces.empty() ? nullptr : &traces[comm.rank().index()];
      detail::run_on_device(comm, pool_of(comm.rank()), of, shared, first, trace, all);
    });
  } catch (fssdp::out_of_memory const& error) {
    throw std::runtime_error{std::string{error.what()} +
                             "; expected a larger --scale, or fewer --layers, --experts or "
                             "--devices"};
  }
  if (!timeline.empty()) write_timeline(timeline, traces, all.last_begin);
  return summed_up(of, all);
}

}  // namespace step
