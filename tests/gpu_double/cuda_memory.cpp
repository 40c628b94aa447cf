// SPDX-License-Identifier: Apache-2.0
/// CUDA's runtime: devices and memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "gpu_double/cuda_parts.hpp"
#include "gpu_double/gpu_double.hpp"

/// Memory of a device, that those with access may use, too.
struct CUmemPoolHandle_st {
  int device = 0;
  std::set<int> open_to;
};

namespace {

thread_local int current_device = 0;
thread_local auto last_error = cudaSuccess;

constexpr int the_host = -1;  // as a device: its pinned memory, which all others read

struct allocation {
  std::size_t bytes;
  int device;
  cudaMemPool_t pool;  // null: none
};

std::mutex memory_mutex;  // guards what follows
std::map<std::byte const*, allocation> allocations;
std::set<std::pair<int, int>> peers;  // a device and one whose memory it reads
std::atomic<int> allocated_on_streams = 0;
std::atomic<std::size_t> bytes_copied = 0;

/// The allocation that an address is in, or null.
allocation const* find_allocation(std::byte const* address, std::size_t bytes) {
  auto const behind = allocations.upper_bound(address);
  if (behind == allocations.begin()) return nullptr;
  auto const& [memory, found] = *std::prev(behind);
  return address + bytes <= memory + found.bytes ? &found : nullptr;
}

/// The bytes that a device, or the host, has left.
std::size_t left_on(int device) {
  auto const lock = std::scoped_lock{memory_mutex};
  auto used = std::size_t{0};
  for (auto const& [address, of] : allocations)
    if (of.device == device) used += of.bytes;
  return gpu_double::current().memory - std::min(used, gpu_double::current().memory);
}

/// Null if there is not so much.
void* allocate(std::size_t bytes, int device, cudaMemPool_t pool = nullptr) {
  if (bytes > left_on(device)) return nullptr;
  auto const size = (bytes + 255) / 256 * 256;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(256, size));
  std::memset(memory, 0xcd, size);  // nobody may rely on zeros
  auto const lock = std::scoped_lock{memory_mutex};
  allocations[memory] = {bytes, device, pool};
  return memory;
}
cudaError_t outcome_of(void const* allocated) {
  if (allocated == nullptr) last_error = cudaErrorMemoryAllocation;
  return allocated == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t release(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  {
    auto const lock = std::scoped_lock{memory_mutex};
    if (allocations.erase(static_cast<std::byte*>(memory)) == 0) return cudaErrorInvalidValue;
  }
  std::free(memory);
  return cudaSuccess;
}
bool are_of_one_device(void const* a, void const* b) {
  auto const lock = std::scoped_lock{memory_mutex};
  auto const* const of_a = find_allocation(static_cast<std::byte const*>(a), 1);
  auto const* const of_b = find_allocation(static_cast<std::byte const*>(b), 1);
  return of_a != nullptr && of_b != nullptr && of_a->device == of_b->device &&
         of_a->device != the_host;
}
bool is_pinned(void const* address) {
  auto const lock = std::scoped_lock{memory_mutex};
  auto const* const found = find_allocation(static_cast<std::byte const*>(address), 1);
  return found != nullptr && found->device == the_host;
}

}  // namespace

namespace gpu_double {

std::size_t live_allocations() {
  auto const lock = std::scoped_lock{memory_mutex};
  return allocations.size();
}
int async_allocations() { return allocated_on_streams; }
int free_what_is_left() {
  auto const lock = std::scoped_lock{memory_mutex};
  auto const freed = static_cast<int>(allocations.size());
  for (auto const& [address, of] : allocations) std::free(const_cast<std::byte*>(address));
  allocations.clear();
  return freed;
}
bool is_device_memory(void const* begin, std::size_t bytes) {
  auto const lock = std::scoped_lock{memory_mutex};
  return find_allocation(static_cast<std::byte const*>(begin), bytes) != nullptr;
}
void close_peers() {
  auto const lock = std::scoped_lock{memory_mutex};
  peers.clear();
}
void check_access(cudaStream_t stream, void const* address) {
  auto const device = device_of(stream);
  auto closed = std::string{};
  {
    auto const lock = std::scoped_lock{memory_mutex};
    auto const* const found = find_allocation(static_cast<std::byte const*>(address), 1);
    auto const is_open = [&] {
      if (found == nullptr) return !current().only_device_memory;
      if (found->device == device || found->device == the_host) return true;
      return found->pool != nullptr ? found->pool->open_to.contains(device)
                                    : peers.contains({device, found->device});
    };
    if (is_open()) return;
    closed = "device " + std::to_string(device) + " uses memory of " +
             (found == nullptr ? "the host" : "device " + std::to_string(found->device)) +
             " that is not open to it";
  }
  report(closed);
}
std::size_t copied_bytes() { return bytes_copied; }
void count_copied(std::size_t bytes) { bytes_copied += bytes; }

}  // namespace gpu_double

using gpu_double::enqueue;
using gpu_double::is_forbidden;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpu_double::current().devices;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= gpu_double::current().devices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "double of a device");
  return cudaSuccess;
}
char const* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorNoDevice        ? "cudaErrorNoDevice"
         : error == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice"
                                           : "cudaError";
}
char const* cudaGetErrorString(cudaError_t) { return "as the double says"; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  *left = left_on(current_device);
  *all = gpu_double::current().memory;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (is_forbidden("cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
  return outcome_of(*memory = allocate(bytes, current_device));
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  if (is_forbidden("cudaHostAlloc")) return cudaErrorStreamCaptureUnsupported;
  if ((flags & cudaHostAllocPortable) == 0 || bytes == 0) return cudaErrorInvalidValue;
  return outcome_of(*memory = allocate(bytes, the_host));
}
cudaError_t cudaFreeHost(void* memory) {
  if (is_forbidden("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  return memory == nullptr || is_pinned(memory) ? release(memory) : cudaErrorInvalidValue;
}
/// Waits for all that is on the device, as the real one does.
cudaError_t cudaFree(void* memory) {
  if (is_forbidden("cudaFree")) return cudaErrorStreamCaptureUnsupported;
  if (is_pinned(memory)) return cudaErrorInvalidValue;
  gpu_double::synchronize_device(current_device);
  return release(memory);
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(memory, bytes, nullptr, stream);
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (fssdp::detail::is_captured(stream, {})) return cudaErrorStreamCaptureUnsupported;
  ++allocated_on_streams;
  return outcome_of(*memory =
                        allocate(bytes, pool == nullptr ? current_device : pool->device, pool));
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
  if (properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice)
    return cudaErrorInvalidValue;
  *pool = std::make_unique<CUmemPoolHandle_st>(CUmemPoolHandle_st{properties->location.id, {}})
              .release();
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  auto const owned = std::unique_ptr<CUmemPoolHandle_st>{pool};
  auto const lock = std::scoped_lock{memory_mutex};
  for (auto& [address, of] : allocations)
    if (of.pool == pool) of.pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* list,
                                 std::size_t count) {
  auto const lock = std::scoped_lock{memory_mutex};
  for (std::size_t i = 0; i < count; ++i) pool->open_to.insert(list[i].location.id);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = gpu_double::current().peer_access && device != peer ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  if (!gpu_double::current().peer_access) return cudaErrorPeerAccessUnsupported;
  auto const lock = std::scoped_lock{memory_mutex};
  return peers.insert({current_device, peer}).second ? cudaSuccess
                                                     : cudaErrorPeerAccessAlreadyEnabled;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return enqueue(stream, [memory] { (void)release(memory); });
}
/// From memory of the host that is not pinned a copy is made at once; into it, the caller waits.
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, void const* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  if (width * height == 0) return cudaSuccess;
  if (kind != cudaMemcpyHostToDevice) gpu_double::check_access(stream, from);
  if (kind != cudaMemcpyDeviceToHost) gpu_double::check_access(stream, to);
  if (kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault)
    gpu_double::count_copied(width * height);
  auto const copy = [=](std::byte* out, std::byte const* in) {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(out + row * to_pitch, in + row * from_pitch, width);
  };
  auto* const out = static_cast<std::byte*>(to);
  auto const* const in = static_cast<std::byte const*>(from);
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    auto const size = (height - 1) * from_pitch + width;
    return enqueue(
        stream, [=, staged = std::vector<std::byte>(in, in + size)] { copy(out, staged.data()); });
  }
  auto const code = enqueue(stream, [=] { copy(out, in); });
  if (code != cudaSuccess || kind != cudaMemcpyDeviceToHost || is_pinned(to)) return code;
  return gpu_double::synchronize(stream);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  gpu_double::check_access(stream, memory);
  return enqueue(stream, [=] { std::memset(memory, value, bytes); });
}
/// One after the other; the real ones may be made in any order, or at once.
cudaError_t cudaMemcpyBatchAsync(void* const* to, void const* const* from, std::size_t const* bytes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* firsts, std::size_t of, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  if (gpu_double::is_default(stream) || count == 0 || of != 1 || firsts[0] != 0 ||
      attributes->srcAccessOrder != cudaMemcpySrcAccessOrderStream)
    return cudaErrorInvalidValue;
  auto const wants_engines = attributes->flags == cudaMemcpyFlagPreferOverlapWithCompute;
  for (std::size_t i = 0; i < count; ++i) {
    gpu_double::check_access(stream, to[i]);
    gpu_double::check_access(stream, from[i]);
    if (wants_engines && are_of_one_device(to[i], from[i]))
      gpu_double::report("an engine is asked to copy within a device, which is slow");
    gpu_double::count_copied(bytes[i]);
    auto const code = enqueue(
        stream, [out = to[i], in = from[i], size = bytes[i]] { std::memcpy(out, in, size); });
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}
