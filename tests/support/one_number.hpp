// SPDX-License-Identifier: Apache-2.0
/// One number from a rank to another, under a label.
#pragma once

#include <cstddef>
#include <latch>
#include <span>

#include "fssdp/comm/thread.hpp"

namespace support {

/// @param posted is counted down when the message has been named
inline void receive_from(fssdp::thread_communicator& comm, fssdp::rank_id peer,
                         std::latch* posted = nullptr) {
  auto number = 0;
  comm.exchange([&](auto& batch) {
    set_label(batch, {.plan = 0xabcdef, .round = 3});
    batch.recv(std::as_writable_bytes(std::span{&number, 1}), peer);
    if (posted != nullptr) posted->count_down();
  });
}
inline void send_to(fssdp::thread_communicator& comm, fssdp::rank_id peer,
                    std::latch* posted = nullptr) {
  auto const number = 5;
  comm.exchange([&](auto& batch) {
    set_label(batch, {.plan = 0xabcdef, .round = 3});
    batch.send(std::as_bytes(std::span{&number, 1}), peer);
    if (posted != nullptr) posted->count_down();
  });
}

}  // namespace support
