// SPDX-License-Identifier: Apache-2.0
/// fssdp over Gloo: the adapter, and a host that connects ranks for it.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"

/// A rank of a Gloo context. Gloo matches messages by a slot number: here it is the number of
/// messages so far from the one rank to the other, so they match in the order of the calls.
class gloo_communicator {
 public:
  using stream_type = fssdp::inline_stream;
  using memory_space = fssdp::host_memory;

  explicit gloo_communicator(std::shared_ptr<gloo::Context> context)
      : context_{std::move(context)}, sent_(peers()), received_(peers()) {}

  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{context_->rank}; }
  [[nodiscard]] int size() const { return context_->size; }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = messages{*context_};
    post(batch);  // names the messages; if it throws, nothing has been sent
    for (auto& m : batch.in)
      talk(m, [&] { m.memory->recv(m.peer.value(), received_[m.index()]++); });
    for (auto& m : batch.out) talk(m, [&] { m.memory->send(m.peer.value(), sent_[m.index()]++); });
    for (auto& m : batch.in) talk(m, [&] { m.memory->waitRecv(); });
    for (auto& m : batch.out) talk(m, [&] { m.memory->waitSend(); });
  }

 private:
  struct message {
    std::unique_ptr<gloo::transport::UnboundBuffer> memory;
    fssdp::rank_id peer;
    [[nodiscard]] std::size_t index() const { return peer.index(); }
  };
  struct messages {
    gloo::Context& context;
    std::vector<message> out = {}, in = {};
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) {
      auto* const data = const_cast<std::byte*>(bytes.data());  // Gloo has one type for both ways
      out.push_back({context.createUnboundBuffer(data, bytes.size()), to});
    }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) {
      in.push_back({context.createUnboundBuffer(bytes.data(), bytes.size()), from});
    }
  };

  /// Gloo throws an IoException when the context's timeout has passed and when a connection is
  /// lost. It does not say which rank it waited for; a transport_error does.
  template <class Work>
  static void talk(message const& with, Work work) try {
    work();
  } catch (gloo::IoException const& error) {
    throw fssdp::transport_error{with.peer, error.what()};
  }

  [[nodiscard]] std::size_t peers() const { return static_cast<std::size_t>(size()); }

  std::shared_ptr<gloo::Context> context_;
  std::vector<std::uint64_t> sent_, received_;  // [rank]
};

static_assert(fssdp::communicator<gloo_communicator>);

/// What a host framework has already: ranks that are connected. Here they are threads of one
/// process that find each other in a table and talk over the loopback device.
class gloo_host {
 public:
  static constexpr auto name = "Gloo";

  explicit gloo_host(int ranks, std::chrono::milliseconds deadline = std::chrono::seconds{30})
      : ranks_{ranks}, deadline_{deadline} {}

  /// Called by every rank in a thread of its own; returns when all have called.
  [[nodiscard]] gloo_communicator connect(fssdp::rank_id rank) {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank.value(), ranks_);
    context->setTimeout(deadline_);
    context->connectFullMesh(addresses_, device_);
    return gloo_communicator{std::move(context)};
  }

 private:
  int ranks_;
  std::chrono::milliseconds deadline_;
  gloo::rendezvous::HashStore addresses_;
  std::shared_ptr<gloo::transport::Device> device_ =
      gloo::transport::tcp::CreateDevice("127.0.0.1");
};
