// SPDX-License-Identifier: Apache-2.0
/// CUDA's runtime: devices, memory, streams, events, graphs.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "gpu_double/gpu_double.hpp"

using work = std::function<void()>;

/// A graph is a list of work: streams that fork are not captured.
struct CUgraph_st {
  std::vector<work> nodes;
};
struct CUgraphExec_st {
  std::vector<work> nodes;
};

/// A queue with a thread.
struct CUstream_st {
  explicit CUstream_st(int on) : device{on}, worker{[this] { serve(); }} {}
  CUstream_st(CUstream_st const&) = delete;
  CUstream_st& operator=(CUstream_st const&) = delete;
  ~CUstream_st() { finish(); }

  /// Runs what is on it, and nothing any more.
  void finish() {
    {
      auto const lock = std::scoped_lock{mutex};
      closing = true;
    }
    changed.notify_all();
    if (worker.joinable()) worker.join();
  }

  void push(work item) {
    {
      auto const lock = std::scoped_lock{mutex};
      if (captured != nullptr)
        captured->nodes.push_back(std::move(item));
      else
        queue.push_back(std::move(item));
    }
    changed.notify_all();
  }
  void serve() {
    auto lock = std::unique_lock{mutex};
    for (;;) {
      changed.wait(lock, [this] { return closing || !queue.empty(); });
      if (queue.empty()) return;
      auto const item = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      item();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  [[nodiscard]] bool is_idle() const { return queue.empty() && !busy; }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<work> queue;
  bool busy = false;
  bool closing = false;
  std::unique_ptr<CUgraph_st> captured;
  bool is_global = false;  // the capture
  int const device;
  std::atomic<bool> loses_waits = false;
  std::thread worker;  // last, so that it finds everything else alive
};

/// Memory of a device, that those with access may use, too.
struct CUmemPoolHandle_st {
  int device = 0;
  std::set<int> open_to;
};

namespace {

/// How often an event has been recorded, and how often that has been reached.
struct event_state {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  std::chrono::steady_clock::time_point when = {};  // that was
};

thread_local int current_device = 0;
/// Captures that are under way: those that a thread has begun, and those that forbid others to
/// call what may wait for the device, unless they are relaxed.
thread_local int captures = 0;
std::atomic<int> global_captures = 0;
thread_local auto capture_mode = cudaStreamCaptureModeGlobal;

/// What breaks a graph that is captured.
[[nodiscard]] bool is_forbidden(char const* call) {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return false;
  auto const others = capture_mode == cudaStreamCaptureModeGlobal && global_captures != 0;
  if (captures == 0 && !others) return false;
  gpu_double::report(std::string{call} + " while a graph is captured");
  return true;
}

std::mutex streams_mutex;
std::multimap<int, std::shared_ptr<CUstream_st>> streams;  // by device

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
std::atomic<int> times_waited = 0;
std::atomic<std::size_t> bytes_copied = 0;

/// The allocation that an address is in, or null.
allocation const* find_allocation(std::byte const* address, std::size_t bytes) {
  auto const behind = allocations.upper_bound(address);
  if (behind == allocations.begin()) return nullptr;
  auto const& [memory, found] = *std::prev(behind);
  return address + bytes <= memory + found.bytes ? &found : nullptr;
}

void* allocate(std::size_t bytes, int device, cudaMemPool_t pool = nullptr) {
  auto const size = (bytes + 255) / 256 * 256;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(256, size));
  std::memset(memory, 0xcd, size);  // nobody may rely on zeros
  auto const lock = std::scoped_lock{memory_mutex};
  allocations[memory] = {bytes, device, pool};
  return memory;
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
bool is_pinned(void const* address) {
  auto const lock = std::scoped_lock{memory_mutex};
  auto const* const found = find_allocation(static_cast<std::byte const*>(address), 1);
  return found != nullptr && found->device == the_host;
}

}  // namespace

struct CUevent_st {
  std::shared_ptr<event_state> state = std::make_shared<event_state>();
};

namespace gpu_double {

std::size_t live_allocations() {
  auto const lock = std::scoped_lock{memory_mutex};
  return allocations.size();
}
int async_allocations() { return allocated_on_streams; }
bool is_device_memory(void const* begin, std::size_t bytes) {
  auto const lock = std::scoped_lock{memory_mutex};
  return find_allocation(static_cast<std::byte const*>(begin), bytes) != nullptr;
}
void close_peers() {
  auto const lock = std::scoped_lock{memory_mutex};
  peers.clear();
}
void check_access(cudaStream_t stream, void const* address) {
  auto closed = std::string{};
  {
    auto const lock = std::scoped_lock{memory_mutex};
    auto const* const found = find_allocation(static_cast<std::byte const*>(address), 1);
    auto const is_open = [&] {
      if (found == nullptr) return !current().only_device_memory;
      if (found->device == stream->device || found->device == the_host) return true;
      return found->pool != nullptr ? found->pool->open_to.contains(stream->device)
                                    : peers.contains({stream->device, found->device});
    };
    if (is_open()) return;
    closed = "device " + std::to_string(stream->device) + " uses memory of " +
             (found == nullptr ? "the host" : "device " + std::to_string(found->device)) +
             " that is not open to it";
  }
  report(closed);
}
int device_of(cudaStream_t stream) { return stream->device; }
int host_waits() { return times_waited; }
std::size_t copied_bytes() { return bytes_copied; }
void count_copied(std::size_t bytes) { bytes_copied += bytes; }
void lose_waits_of(cudaStream_t stream) { stream->loses_waits = true; }
cudaError_t enqueue(cudaStream_t stream, work item) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->push(std::move(item));
  return cudaSuccess;
}

}  // namespace gpu_double

using gpu_double::enqueue;

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
char const* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorNoDevice        ? "cudaErrorNoDevice"
         : error == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice"
                                           : "cudaError";
}
char const* cudaGetErrorString(cudaError_t) { return "as the double says"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (is_forbidden("cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
  *memory = allocate(bytes, current_device);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  if (is_forbidden("cudaHostAlloc")) return cudaErrorStreamCaptureUnsupported;
  if ((flags & cudaHostAllocPortable) == 0 || bytes == 0) return cudaErrorInvalidValue;
  if (bytes > std::size_t{1} << 40U) return cudaErrorMemoryAllocation;
  *memory = allocate(bytes, the_host);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  return memory == nullptr || is_pinned(memory) ? release(memory) : cudaErrorInvalidValue;
}
/// Waits for all that is on the device, as the real one does; others may destroy streams meanwhile.
cudaError_t cudaFree(void* memory) {
  if (is_pinned(memory)) return cudaErrorInvalidValue;
  ++times_waited;
  auto of_device = std::vector<std::shared_ptr<CUstream_st>>{};
  {
    auto const lock = std::scoped_lock{streams_mutex};
    auto const [first, last] = streams.equal_range(current_device);
    for (auto at = first; at != last; ++at) of_device.push_back(at->second);
  }
  for (auto const& stream : of_device) (void)cudaStreamSynchronize(stream.get());
  return release(memory);
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(memory, bytes, nullptr, stream);
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  ++allocated_on_streams;
  *memory = allocate(bytes, pool == nullptr ? current_device : pool->device, pool);
  return cudaSuccess;
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
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
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
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  gpu_double::check_access(stream, memory);
  return enqueue(stream, [=] { std::memset(memory, value, bytes); });
}
/// One behind the other; the real ones may be made in any order, or at once.
cudaError_t cudaMemcpyBatchAsync(void* const* to, void const* const* from, std::size_t const* bytes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* firsts, std::size_t of, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  if (stream == nullptr || count == 0 || of != 1 || firsts[0] != 0 ||
      attributes->srcAccessOrder != cudaMemcpySrcAccessOrderStream)
    return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    gpu_double::check_access(stream, to[i]);
    gpu_double::check_access(stream, from[i]);
    gpu_double::count_copied(bytes[i]);
    auto const code = enqueue(
        stream, [out = to[i], in = from[i], size = bytes[i]] { std::memcpy(out, in, size); });
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  auto made = std::make_shared<CUstream_st>(current_device);
  *stream = made.get();
  auto const lock = std::scoped_lock{streams_mutex};
  streams.emplace(current_device, std::move(made));
  return cudaSuccess;
}
/// What is on it runs first.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->finish();
  auto const lock = std::scoped_lock{streams_mutex};
  std::erase_if(streams, [stream](auto const& entry) { return entry.second.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  ++times_waited;
  if (is_forbidden("cudaStreamQuery")) return cudaErrorStreamCaptureUnsupported;
  auto const lock = std::scoped_lock{stream->mutex};
  if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  return stream->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  ++times_waited;
  return cudaErrorNotSupported;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++times_waited;
  auto lock = std::unique_lock{stream->mutex};
  if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->changed.wait(lock, [&] { return stream->is_idle(); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return enqueue(stream, [=] { function(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = std::make_unique<CUevent_st>().release();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  auto const owned = std::unique_ptr<CUevent_st>{event};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto const uncounted = gpu_double::not_counted{};
  auto const state = event->state;
  auto number = std::uint64_t{};
  {
    auto const lock = std::scoped_lock{state->mutex};
    number = ++state->recorded;
  }
  return enqueue(stream, [state, number] {
    auto const lock = std::scoped_lock{state->mutex};
    state->reached = number;
    state->when = std::chrono::steady_clock::now();
    state->changed.notify_all();
  });
}
/// Of any two events; real ones must not have been made without a time.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  auto const time_of = [](cudaEvent_t event) {
    auto const lock = std::scoped_lock{event->state->mutex};
    return event->state->when;
  };
  *milliseconds = std::chrono::duration<float, std::milli>{time_of(end) - time_of(begin)}.count();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_forbidden("cudaEventQuery")) return cudaErrorStreamCaptureUnsupported;
  auto const lock = std::scoped_lock{event->state->mutex};
  return event->state->reached == event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++times_waited;
  auto lock = std::unique_lock{event->state->mutex};
  event->state->changed.wait(lock, [&] { return event->state->reached == event->state->recorded; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  auto const uncounted = gpu_double::not_counted{};
  if (stream->loses_waits) return cudaSuccess;
  auto const state = event->state;
  auto number = std::uint64_t{};
  {
    auto const lock = std::scoped_lock{state->mutex};
    number = state->recorded;
  }
  return enqueue(stream, [state, number] {
    auto lock = std::unique_lock{state->mutex};
    state->changed.wait(lock, [&] { return state->reached >= number; });
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  auto const lock = std::scoped_lock{stream->mutex};
  *status =
      stream->captured != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto const lock = std::scoped_lock{stream->mutex};
  stream->captured = std::make_unique<CUgraph_st>();
  stream->is_global = mode == cudaStreamCaptureModeGlobal;
  ++captures;
  if (stream->is_global) ++global_captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto const lock = std::scoped_lock{stream->mutex};
  *graph = stream->captured.release();
  if (*graph == nullptr) return cudaErrorIllegalState;
  --captures;
  if (stream->is_global) --global_captures;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = std::make_unique<CUgraphExec_st>(CUgraphExec_st{graph->nodes}).release();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (auto const& node : exec->nodes) (void)enqueue(stream, node);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  auto const owned = std::unique_ptr<CUgraph_st>{graph};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  auto const owned = std::unique_ptr<CUgraphExec_st>{exec};
  return cudaSuccess;
}
