// SPDX-License-Identifier: Apache-2.0
/// CUDA's runtime: streams, events, graphs.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_double/cuda_parts.hpp"
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
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // of the capture
  int const device;
  std::atomic<bool> loses_waits = false;
  std::thread worker;  // last, so that it finds everything else alive
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

/// Captures that are under way and not relaxed: those that a thread has begun, which forbid it to
/// call what may wait for the device, and those that forbid it to others, too.
thread_local int captures = 0;
std::atomic<int> global_captures = 0;
thread_local auto capture_mode = cudaStreamCaptureModeGlobal;

void count_capture(cudaStreamCaptureMode mode, int by) {
  if (mode != cudaStreamCaptureModeRelaxed) captures += by;
  if (mode == cudaStreamCaptureModeGlobal) global_captures += by;
}

std::mutex streams_mutex;
std::multimap<int, std::shared_ptr<CUstream_st>> streams;     // by device
std::map<int, std::unique_ptr<CUstream_st>> default_streams;  // likewise: one for all its threads
std::atomic<int> times_waited = 0;
std::atomic<int> looked_in_vain = 0;

}  // namespace

struct CUevent_st {
  std::shared_ptr<event_state> state = std::make_shared<event_state>();
};

namespace gpu_double {

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}
CUstream_st& queue_of(cudaStream_t stream) {
  if (!is_default(stream)) return *stream;
  if (!current().default_streams) report("a default stream is used");
  auto device = 0;
  (void)cudaGetDevice(&device);
  auto const lock = std::scoped_lock{streams_mutex};
  auto& queue = default_streams[device];
  if (queue == nullptr) queue = std::make_unique<CUstream_st>(device);
  return *queue;
}
bool is_forbidden(char const* call) {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return false;
  auto const others = capture_mode == cudaStreamCaptureModeGlobal && global_captures != 0;
  if (captures == 0 && !others) return false;
  report(std::string{call} + " while a graph is captured");
  return true;
}
cudaError_t synchronize(cudaStream_t stream) {
  ++times_waited;
  auto& queue = queue_of(stream);
  auto lock = std::unique_lock{queue.mutex};
  if (queue.captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  queue.changed.wait(lock, [&] { return queue.is_idle(); });
  return cudaSuccess;
}
/// Others may destroy streams meanwhile.
void synchronize_device(int device) {
  ++times_waited;
  auto of_device = std::vector<std::shared_ptr<CUstream_st>>{};
  {
    auto const lock = std::scoped_lock{streams_mutex};
    auto const [first, last] = streams.equal_range(device);
    for (auto at = first; at != last; ++at) of_device.push_back(at->second);
  }
  for (auto const& stream : of_device) (void)synchronize(stream.get());
}
int device_of(cudaStream_t stream) { return queue_of(stream).device; }
int host_waits() { return times_waited; }
int looks_in_vain() { return looked_in_vain; }
void lose_waits_of(cudaStream_t stream) { queue_of(stream).loses_waits = true; }
cudaError_t enqueue(cudaStream_t stream, work item) {
  queue_of(stream).push(std::move(item));
  return cudaSuccess;
}

}  // namespace gpu_double

using gpu_double::enqueue;
using gpu_double::is_default;
using gpu_double::is_forbidden;
using gpu_double::queue_of;

/// There is no difference.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  auto device = 0;
  (void)cudaGetDevice(&device);
  auto made = std::make_shared<CUstream_st>(device);
  *stream = made.get();
  auto const lock = std::scoped_lock{streams_mutex};
  streams.emplace(device, std::move(made));
  return cudaSuccess;
}
/// What is on it runs first.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (is_default(stream)) return cudaErrorInvalidResourceHandle;
  stream->finish();
  auto const lock = std::scoped_lock{streams_mutex};
  std::erase_if(streams, [stream](auto const& entry) { return entry.second.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  ++times_waited;
  if (is_forbidden("cudaStreamQuery")) return cudaErrorStreamCaptureUnsupported;
  auto& queue = queue_of(stream);
  auto const lock = std::scoped_lock{queue.mutex};
  if (queue.captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  return queue.is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  if (is_forbidden("cudaDeviceSynchronize")) return cudaErrorStreamCaptureUnsupported;
  auto device = 0;
  (void)cudaGetDevice(&device);
  gpu_double::synchronize_device(device);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_forbidden("cudaStreamSynchronize")) return cudaErrorStreamCaptureUnsupported;
  return gpu_double::synchronize(stream);
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
  if (event->state->reached == event->state->recorded) return cudaSuccess;
  ++looked_in_vain;
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (is_forbidden("cudaEventSynchronize")) return cudaErrorStreamCaptureUnsupported;
  ++times_waited;
  auto lock = std::unique_lock{event->state->mutex};
  event->state->changed.wait(lock, [&] { return event->state->reached == event->state->recorded; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  auto const uncounted = gpu_double::not_counted{};
  if (queue_of(stream).loses_waits) return cudaSuccess;
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
  auto& queue = queue_of(stream);
  auto const lock = std::scoped_lock{queue.mutex};
  *status = queue.captured != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_default(stream)) return cudaErrorStreamCaptureUnsupported;
  auto const lock = std::scoped_lock{stream->mutex};
  stream->captured = std::make_unique<CUgraph_st>();
  stream->mode = mode;
  count_capture(mode, 1);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (is_default(stream)) return cudaErrorIllegalState;
  auto const lock = std::scoped_lock{stream->mutex};
  *graph = stream->captured.release();
  if (*graph == nullptr) return cudaErrorIllegalState;
  count_capture(stream->mode, -1);
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
