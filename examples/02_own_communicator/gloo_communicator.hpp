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
#include <sstream>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"

/// A rank of a Gloo context. Messages match by slot, and a slot is made of what both ends must
/// agree on: so bytes never end up in another collective, or in a message of another size. Ranks
/// that disagree wait for each other until the deadline, and the error says for what.
class gloo_communicator {
 public:
  explicit gloo_communicator(std::shared_ptr<gloo::Context> of) : context_{std::move(of)} {}

  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{context_->rank}; }
  [[nodiscard]] int size() const { return context_->size; }

  template <class Post>
  void exchange(Post&& post) {
    auto batch = messages{*context_};
    post(batch);  // registers the messages; nothing is sent yet
    batch.for_each(batch.in, [](auto& of) { of.memory->recv(of.peer.value(), of.slot); });
    batch.for_each(batch.out, [](auto& of) { of.memory->send(of.peer.value(), of.slot); });
    batch.for_each(batch.in, [](auto& of) { of.memory->waitRecv(); });
    batch.for_each(batch.out, [](auto& of) { of.memory->waitSend(); });
  }

 private:
  struct message {
    std::unique_ptr<gloo::transport::UnboundBuffer> memory;
    fssdp::rank_id peer;
    std::uint64_t slot;  // between two ranks, messages in one slot match in order
  };
  struct messages {
    gloo::Context& context;
    fssdp::batch_label about = {};
    std::vector<message> out = {}, in = {};
    void label(fssdp::batch_label const& value) { about = value; }
    void send(std::span<std::byte const> bytes, fssdp::rank_id to) { add(out, bytes, to); }
    void recv(std::span<std::byte> bytes, fssdp::rank_id from) { add(in, bytes, from); }
    void add(std::vector<message>& list, std::span<std::byte const> bytes, fssdp::rank_id peer) {
      auto* const data = const_cast<std::byte*>(bytes.data());  // Gloo has one type for both ways
      list.push_back({context.createUnboundBuffer(data, bytes.size()), peer,
                      fssdp::message_tag(about, bytes.size())});
    }

    /// Gloo throws an IoException when the context's timeout has passed, and when a connection is
    /// lost. fssdp wants a transport_error that says which rank was waited for.
    template <class Work>
    void for_each(std::vector<message> const& list, Work work) const {
      for (auto const& of : list) try {
          work(of);
        } catch (gloo::IoException const& error) {
          auto text = std::ostringstream{};
          text << "rank " << context.rank << ": no message of " << of.memory->size
               << " bytes from or to rank " << of.peer.value() << " in round " << about.round
               << " of plan " << std::hex << about.plan
               << "; expected both ranks there: " << error.what();
          throw fssdp::transport_error{of.peer, text.str()};
        }
    }
  };

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
