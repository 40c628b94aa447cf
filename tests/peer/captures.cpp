// SPDX-License-Identifier: Apache-2.0
/// What the double refuses while a graph is captured, as CUDA does: what may wait for a device.
#include <cuda_runtime_api.h>

#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "gpu_double/gpu_double.hpp"

namespace {

using names = std::vector<std::string>;

/// What is there before a capture begins.
struct device_things {
  fssdp::cuda_stream stream = fssdp::make_cuda_stream();
  fssdp::detail::cuda_event event = fssdp::detail::make_cuda_event({});
  void* memory = nullptr;
  void* pinned = nullptr;

  device_things() {
    cudaMalloc(&memory, 16);
    cudaHostAlloc(&pinned, 16, cudaHostAllocPortable);
  }
  device_things(device_things const&) = delete;
  device_things& operator=(device_things const&) = delete;
  ~device_things() {
    cudaFree(memory);
    cudaFreeHost(pinned);
  }
};

/// The calls that are refused to this thread.
[[nodiscard]] names refused(device_things& of) {
  auto found = names{};
  auto const works = [&](char const* call, cudaError_t code) {
    if (code == cudaErrorStreamCaptureUnsupported) found.emplace_back(call);
    return code == cudaSuccess;
  };
  void* made = nullptr;
  if (works("cudaMalloc", cudaMalloc(&made, 16))) cudaFree(made);
  if (works("cudaHostAlloc", cudaHostAlloc(&made, 16, cudaHostAllocPortable))) cudaFreeHost(made);
  if (works("cudaFree", cudaFree(of.memory))) of.memory = nullptr;
  if (works("cudaFreeHost", cudaFreeHost(of.pinned))) of.pinned = nullptr;
  works("cudaDeviceSynchronize", cudaDeviceSynchronize());
  works("cudaStreamSynchronize", cudaStreamSynchronize(of.stream.get()));
  works("cudaStreamQuery", cudaStreamQuery(of.stream.get()));
  works("cudaEventSynchronize", cudaEventSynchronize(of.event.get()));
  works("cudaEventQuery", cudaEventQuery(of.event.get()));
  return found;
}

/// To the thread that captures, and to another one; and what the double tells of it.
struct refusals {
  names to_itself;
  names to_another;
  names told;
};
[[nodiscard]] refusals refusals_during(cudaStreamCaptureMode mode) {
  gpu_double::reset();
  auto mine = device_things{};
  auto others = device_things{};
  auto const stream = fssdp::make_cuda_stream();
  auto graph = cudaGraph_t{};
  auto found = refusals{};
  cudaStreamBeginCapture(stream.get(), mode);
  found.to_itself = refused(mine);
  std::thread{[&] { found.to_another = refused(others); }}.join();
  cudaStreamEndCapture(stream.get(), &graph);
  cudaGraphDestroy(graph);
  found.told = gpu_double::violations();
  return found;
}

}  // namespace

TEST_CASE("the double refuses calls that may wait for a device while a graph is captured") {
  auto const all = names{"cudaMalloc",      "cudaHostAlloc",         "cudaFree",
                         "cudaFreeHost",    "cudaDeviceSynchronize", "cudaStreamSynchronize",
                         "cudaStreamQuery", "cudaEventSynchronize",  "cudaEventQuery"};
  auto const before = gpu_double::live_allocations();
  auto const global = refusals_during(cudaStreamCaptureModeGlobal);
  REQUIRE(global.to_itself == all);
  REQUIRE(global.to_another == all);
  REQUIRE(global.told.size() == 2 * all.size());
  auto const of_thread = refusals_during(cudaStreamCaptureModeThreadLocal);
  REQUIRE(of_thread.to_itself == all);
  REQUIRE(of_thread.to_another == names{});
  REQUIRE(of_thread.told.size() == all.size());
  auto const relaxed = refusals_during(cudaStreamCaptureModeRelaxed);
  REQUIRE(relaxed.to_itself == names{});
  REQUIRE(relaxed.told == names{});
  REQUIRE(gpu_double::live_allocations() == before);
}

TEST_CASE("a query outside of a capture is not refused by the double") {
  gpu_double::reset();
  auto const things = device_things{};
  auto const stream = fssdp::make_cuda_stream();
  auto graph = cudaGraph_t{};
  cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal);
  auto const of_stream = fssdp::detail::query(things.stream.get());
  auto const of_event = fssdp::detail::query(things.event.get());
  auto const of_captured = fssdp::detail::query(stream.get());
  cudaStreamEndCapture(stream.get(), &graph);
  cudaGraphDestroy(graph);
  REQUIRE(of_stream == cudaSuccess);
  REQUIRE(of_event == cudaSuccess);
  REQUIRE(of_captured == cudaErrorStreamCaptureUnsupported);
  REQUIRE(gpu_double::violations() == names{});
}
