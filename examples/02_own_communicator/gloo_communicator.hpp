// SPDX-License-Identifier: Apache-2.0
/// fssdp over Gloo: the adapter, and a host that connects ranks for it.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"

/// A rank of a Gloo context. Gloo compares no sizes: ranks that disagree on one are not told.
class gloo_communicator {
 public:
  explicit gloo_communicator(std::shared_ptr<gloo::Context> of) : context_{std::move(of)} {}

  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{context_->rank}; }
  [[nodiscard]] int size() const { return context_->size; }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = messages{*context_};
    post(batch);  // names the messages; nothing is on its way yet
    for_each(batch.in, [](auto& memory, int from) { memory.recv(from, slot); });
    for_each(batch.out, [](auto& memory, int to) { memory.send(to, slot); });
    for_each(batch.in, [](auto& memory, int) { memory.waitRecv(); });
    for_each(batch.out, [](auto& memory, int) { memory.waitSend(); });
  }

 private:
  using message = std::pair<std::unique_ptr<gloo::transport::UnboundBuffer>, fssdp::rank_id>;
  struct messages {
    gloo::Context& context;
    std::vector<message> out = {}, in = {};
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) { add(out, bytes, to); }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) { add(in, bytes, from); }
    void add(std::vector<message>& list, std::span<std::byte const> bytes, fssdp::rank_id peer) {
      auto* const data = const_cast<std::byte*>(bytes.data());  // Gloo has one type for both ways
      list.emplace_back(context.createUnboundBuffer(data, bytes.size()), peer);
    }
  };

  /// Gloo throws an IoException when the context's timeout has passed, and when a connection is
  /// lost. fssdp wants a transport_error that says which rank was waited for.
  template <class Work>
  static void for_each(std::vector<message> const& list, Work work) {
    for (auto const& [memory, peer] : list) try {
        work(*memory, peer.value());
      } catch (gloo::IoException const& error) {
        throw fssdp::transport_error{peer, error.what()};
      }
  }

  static constexpr auto slot = 0;  // between two ranks, messages in one slot match in order
  std::shared_ptr<gloo::Context> context_;
};

static_assert(fssdp::communicator<gloo_communicator>);

/// What a host framework has already: ranks that are connected. Here they are threads of one
/// process that find each other in a table and talk over the loopback device.
class gloo_host {
 public:
  static constexpr auto name = "Gloo";

  explicit gloo_host(int ranks, std::chrono::milliseconds deadline = std::chrono::seconds{30})
      : deadline_{deadline}, contexts_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] int ranks() const { return static_cast<int>(contexts_.size()); }
  /// Called by every rank in a thread of its own; returns when all have called.
  [[nodiscard]] gloo_communicator connect(fssdp::rank_id rank) {
    auto const context = std::make_shared<gloo::rendezvous::Context>(rank.value(), ranks());
    context->setTimeout(deadline_);
    context->connectFullMesh(addresses_, device_);
    contexts_[rank.index()] = context;
    return gloo_communicator{context};
  }

 private:
  std::chrono::milliseconds deadline_;
  gloo::rendezvous::HashStore addresses_;
  std::shared_ptr<gloo::transport::Device> device_ =
      gloo::transport::tcp::CreateDevice("127.0.0.1");
  std::vector<std::shared_ptr<gloo::Context>> contexts_;  // [rank]; closed when all are done
};
