// SPDX-License-Identifier: Apache-2.0
/// A gate in a stream of a device: what is enqueued after it waits until it is opened.
#pragma once

#include <atomic>
#include <memory>

#include "gpu_double/gpu_double.hpp"

namespace support {

class device_gate {
 public:
  explicit device_gate(cudaStream_t stream) {
    (void)gpu_double::enqueue(stream, [open = is_open_] { open->wait(false); });
  }
  device_gate(device_gate const&) = delete;
  device_gate& operator=(device_gate const&) = delete;
  ~device_gate() { open(); }

  void open() {
    is_open_->store(true);
    is_open_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace support
