// SPDX-License-Identifier: Apache-2.0
/// The messages of one exchange, in an order that both ends know.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// Ordered by peer, from the next rank cyclically to the previous one; for each peer sends, then
/// receives, in the order in which they were added. Empty messages are not sent.
/// @cost no allocation if there has been a batch as large before
class nccl_batch {
 public:
  nccl_batch(rank_id me, int size) : me_{me}, size_{size}, peers_(static_cast<std::size_t>(size)) {}

  void send(std::span<std::byte const> bytes, rank_id to) {
    auto& out = of(to).out;
    if (!bytes.empty()) out.push_back(bytes);
  }
  void recv(std::span<std::byte> bytes, rank_id from) {
    auto& in = of(from).in;
    if (!bytes.empty()) in.push_back(bytes);
  }

  void clear() {
    for (auto& peer : peers_) {
      peer.out.clear();
      peer.in.clear();
    }
  }
  /// Calls visit(peer) for each peer of any message.
  template <class Visit>
  void for_each_peer(Visit visit) const {
    for (int distance = 1; distance < size_; ++distance) {
      auto const peer = rank_id{(me_.value() + distance) % size_};
      auto const& [out, in] = peers_[peer.index()];
      if (!out.empty() || !in.empty()) visit(peer);
    }
  }
  /// Calls NCCL for all messages, in an open group. Returns the error of the first call that fails.
  [[nodiscard]] ncclResult_t name(ncclComm_t comm, cudaStream_t stream) const {
    auto code = ncclSuccess;
    auto const succeeds = [&](ncclResult_t result) {
      if (result != ncclSuccess && result != ncclInProgress && code == ncclSuccess) code = result;
    };
    for_each_peer([&](rank_id peer) {
      for (auto const bytes : peers_[peer.index()].out)
        succeeds(ncclSend(bytes.data(), bytes.size(), ncclUint8, peer.value(), comm, stream));
      for (auto const bytes : peers_[peer.index()].in)
        succeeds(ncclRecv(bytes.data(), bytes.size(), ncclUint8, peer.value(), comm, stream));
    });
    return code;
  }

 private:
  struct messages {
    std::vector<std::span<std::byte const>> out;
    std::vector<std::span<std::byte>> in;
  };
  [[nodiscard]] messages& of(rank_id peer) { return peers_[peer_index(me_, peer, size_)]; }

  rank_id me_;
  int size_;
  std::vector<messages> peers_;
};

}  // namespace fssdp::detail
