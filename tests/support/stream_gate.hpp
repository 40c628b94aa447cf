// SPDX-License-Identifier: Apache-2.0
/// A gate in a stream: what is enqueued after it waits until it is opened.
#pragma once

#include <atomic>
#include <memory>

#include "fssdp/stream/host_stream.hpp"

namespace support {

class stream_gate {
 public:
  explicit stream_gate(fssdp::host_stream& stream) {
    stream.enqueue([open = is_open_] { open->wait(false); });
  }
  stream_gate(stream_gate const&) = delete;
  ~stream_gate() { open(); }

  void open() {
    is_open_->store(true);
    is_open_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace support
