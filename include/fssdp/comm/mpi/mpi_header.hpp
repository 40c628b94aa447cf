// SPDX-License-Identifier: Apache-2.0
/// What describes the messages of a rank to a peer, and carries them if they are short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/message_sizes.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp::detail {

/// Sent ahead of the messages of a rank to another one: the receiver compares it with what it
/// expects. Short messages follow it in the same message of MPI.
struct mpi_header {
  std::uint64_t sequence = 0;
  std::uint64_t plan = 0;
  std::int64_t round = 0;
  std::uint64_t part_bytes = 0;  // larger messages are sent in parts of this size
  std::uint64_t lent = 0;        // messages that are read in place
  std::uint64_t packed = 0;      // whether all messages follow the header
  message_sizes sizes;

  [[nodiscard]] exchange_name name() const { return {sequence, {plan, static_cast<int>(round)}}; }
  /// How a received header differs from this one, which is expected; empty if it does not.
  [[nodiscard]] std::string difference(mpi_header const& there) const {
    if (there.sequence != sequence || there.plan != plan || there.round != round)
      return detail::difference(name(), there.name());
    if (there.part_bytes != part_bytes)
      return text("messages are cut into ", part_bytes, " bytes here, ", there.part_bytes,
                  " there");
    return sizes.difference(there.sizes);
  }
};

/// The buffer of a header and the messages that follow it, to or from one peer. Its memory, 16 KiB,
/// is allocated when it is used for the first time.
class mpi_packet {
 public:
  /// How many bytes of messages may follow a header: copying them costs less than another message
  /// of MPI between hosts.
  static constexpr std::size_t most_packed = std::size_t{16} << 10U;
  /// The length that is received.
  static constexpr std::size_t bytes = sizeof(mpi_header) + most_packed;

  [[nodiscard]] std::byte* data() {
    if (memory_.empty()) memory_.resize(bytes);
    return memory_.data();
  }
  void write(mpi_header const& header) {
    std::memcpy(data(), &header, sizeof(header));
    end_ = sizeof(header);
  }
  void add(std::span<std::byte const> message) {
    copy_bytes({data() + end_, message.size()}, message);
    end_ += message.size();
  }
  [[nodiscard]] mpi_header header() {
    auto header = mpi_header{};
    std::memcpy(&header, data(), sizeof(header));
    end_ = sizeof(header);
    return header;
  }
  /// The next message.
  void take(std::span<std::byte> message) {
    copy_bytes(message, {data() + end_, message.size()});
    end_ += message.size();
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t end_ = 0;  // of what has been written or read
};

}  // namespace fssdp::detail
