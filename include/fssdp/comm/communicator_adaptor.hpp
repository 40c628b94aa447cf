// SPDX-License-Identifier: Apache-2.0
/// The base class of adaptors: passes all calls on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp {

/// Passes all calls of a communicator on to it. An adaptor derives from this class, and defines its
/// own exchange, lend and forward where it intercepts them:
///
///     template <communicator Comm>
///     class mine : public communicator_adaptor<mine<Comm>, Comm> {
///      public:
///       explicit mine(Comm& comm) : mine::communicator_adaptor{comm} {}
///       template <class Post>
///       void exchange(Post&& post) { ...; this->inner().exchange(post); ...; }
///       template <communicator Inner>
///       mine<Inner> around(Inner& inner) const { return ...; }  // the same, around another
///     };
///
/// Submitted work keeps a copy of the adaptor, and runs with `around(inner)`, where inner is what
/// the inner communicator runs it with: so work that is enqueued on a stream goes through the
/// adaptor, too. State of an adaptor must therefore be shared between its copies.
///
/// `duplicate`, `split`, `without` and `find_lost` are not passed on: their results belong to the
/// caller, and may be used by another thread. Wrap them in an adaptor, too.
/// @cost only that of the inner communicator
template <class Derived, communicator Comm>
class communicator_adaptor {
 public:
  using stream_type = stream_type_of<Comm>;
  using memory_space = memory_space_of<Comm>;

  [[nodiscard]] Comm& inner() const { return *comm_; }
  [[nodiscard]] rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }
  [[nodiscard]] decltype(auto) stream() const requires requires(Comm const& comm) { comm.stream(); }
  { return comm_->stream(); }

  template <class Post>
  void exchange(Post&& post) {
    comm_->exchange(std::forward<Post>(post));
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    comm_->lend(std::forward<Post>(post), std::forward<Visit>(visit));
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    comm_->forward(std::forward<Post>(post), std::forward<Arrived>(arrived));
  }

  template <class Work>
  void submit(Work work) requires submitting_communicator<Comm> {
    comm_->submit(adapted(std::move(work)));
  }
  void synchronize() requires submitting_communicator<Comm> { comm_->synchronize(); }

  void agree(std::uint64_t plan) requires agreeing_communicator<Comm> { comm_->agree(plan); }
  void announce(std::span<std::uint64_t const> plans) requires announcing_communicator<Comm> {
    comm_->announce(plans);
  }
  [[nodiscard]] bool has_agreed(std::uint64_t plan) requires announcing_communicator<Comm> {
    return comm_->has_agreed(plan);
  }
  void connect(std::span<rank_id const> peers) requires connecting_communicator<Comm> {
    comm_->connect(peers);
  }
  void gather_values(std::span<std::byte const> mine,
                     std::span<std::byte> all) requires gathering_communicator<Comm> {
    comm_->gather_values(mine, all);
  }

  void sum(device_sums const& of) requires device_communicator<Comm> { comm_->sum(of); }
  void convert(device_conversions const& of) requires device_communicator<Comm> {
    comm_->convert(of);
  }
  void encode(device_encoding const& of) requires coding_communicator<Comm> { comm_->encode(of); }
  void encode(device_sum_encoding const& of) requires coding_communicator<Comm> {
    comm_->encode(of);
  }
  void copy(std::span<std::byte> to,
            std::span<std::byte const> from) requires device_communicator<Comm> {
    comm_->copy(to, from);
  }
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) requires
      device_communicator<Comm> {
    return comm_->allocate(bytes);
  }
  void free(std::span<std::byte> memory) requires device_communicator<Comm> { comm_->free(memory); }

  template <class Work>
  void prepare(Work work) requires side_stream_communicator<Comm> {
    comm_->prepare(adapted(std::move(work)));
  }
  [[nodiscard]] std::uint64_t position() const requires side_stream_communicator<Comm> {
    return comm_->position();
  }
  void await(std::uint64_t position) requires side_stream_communicator<Comm> {
    comm_->await(position);
  }
  void clear(std::span<std::byte> memory) requires side_stream_communicator<Comm> {
    comm_->clear(memory);
  }

 protected:
  explicit communicator_adaptor(Comm& comm) : comm_{&comm} {}
  communicator_adaptor(communicator_adaptor const&) = default;
  communicator_adaptor& operator=(communicator_adaptor const&) = default;
  ~communicator_adaptor() = default;

 private:
  /// Work that runs `work` with this adaptor around the communicator it gets.
  template <class Work>
  [[nodiscard]] auto adapted(Work work) const {
    return
        [self = static_cast<Derived const&>(*this), work = std::move(work)](auto& inner) mutable {
          auto comm = self.around(inner);
          work(comm);
        };
  }

  Comm* comm_;
};

namespace detail {

/// A batch that reports to an observer and passes everything on. The observer has sends(bytes),
/// receives(bytes), borrows(bytes) (which are also received), and labels(label).
template <class Batch, class Observer>
class observed_batch {
 public:
  observed_batch(Batch& batch, Observer& observer) : batch_{batch}, observer_{observer} {}

  void send(std::span<std::byte const> bytes, rank_id to) {
    observer_.sends(bytes.size());
    batch_.send(bytes, to);
  }
  void hold(std::span<std::byte const> bytes, rank_id to) {
    observer_.sends(bytes.size());
    batch_.hold(bytes, to);
  }
  void recv(std::span<std::byte> bytes, rank_id from) {
    observer_.receives(bytes.size());
    batch_.recv(bytes, from);
  }
  void borrow(std::size_t bytes, rank_id from) {
    observer_.borrows(bytes);
    batch_.borrow(bytes, from);
  }
  void label(batch_label const& value) {
    observer_.labels(value);
    set_label(batch_, value);
  }

 private:
  Batch& batch_;
  Observer& observer_;
};

/// Calls `post` with a batch that reports to the observer.
template <class Post, class Batch, class Observer>
void observe(Post& post, Batch& batch, Observer observer) {
  auto observed = observed_batch<Batch, Observer>{batch, observer};
  post(observed);
}

}  // namespace detail
}  // namespace fssdp
