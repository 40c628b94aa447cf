// SPDX-License-Identifier: Apache-2.0
/// A type-erased reference to a communicator, so that the collectives are compiled once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/group.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_encoding.hpp"
#include "fssdp/element/device_sums.hpp"

namespace fssdp {

namespace detail {

/// Whether the host can access the memory that a communicator works on.
template <class Comm>
inline constexpr bool in_host_memory = std::same_as<memory_space_of<Comm>, host_memory>;

/// The kind of exchange of a batch, which decides which functions it has.
enum class batch_use { exchange, lend, forward };

/// A type-erased reference to a batch. Functions that it does not have must not be called.
class batch_ref {
 public:
  /// @tparam Use the kind of exchange of the batch
  template <batch_use Use, class Batch>
  [[nodiscard]] static batch_ref of(Batch& batch) {
    return {&batch, functions_of<Use, Batch>};
  }

  void send(std::span<std::byte const> bytes, rank_id to) const { call_.send(batch_, bytes, to); }
  void recv(std::span<std::byte> bytes, rank_id from) const { call_.recv(batch_, bytes, from); }
  void borrow(std::size_t bytes, rank_id from) const { call_.borrow(batch_, bytes, from); }
  void hold(std::span<std::byte const> bytes, rank_id to) const { call_.hold(batch_, bytes, to); }
  void label(batch_label const& label) const { call_.label(batch_, label); }

 private:
  struct functions {
    void (*send)(void*, std::span<std::byte const>, rank_id);
    void (*recv)(void*, std::span<std::byte>, rank_id);
    void (*borrow)(void*, std::size_t, rank_id);
    void (*hold)(void*, std::span<std::byte const>, rank_id);
    void (*label)(void*, batch_label const&);
  };
  template <batch_use Use, class Batch>
  [[nodiscard]] static constexpr functions make_functions() {
    auto all = functions{};
    all.send = [](void* batch, std::span<std::byte const> bytes, rank_id to) {
      static_cast<Batch*>(batch)->send(bytes, to);
    };
    all.label = [](void* batch, batch_label const& label) {
      set_label(*static_cast<Batch*>(batch), label);
    };
    if constexpr (Use != batch_use::lend)
      all.recv = [](void* batch, std::span<std::byte> bytes, rank_id from) {
        static_cast<Batch*>(batch)->recv(bytes, from);
      };
    if constexpr (Use != batch_use::exchange)
      all.borrow = [](void* batch, std::size_t bytes, rank_id from) {
        static_cast<Batch*>(batch)->borrow(bytes, from);
      };
    if constexpr (Use == batch_use::forward)
      all.hold = [](void* batch, std::span<std::byte const> bytes, rank_id to) {
        static_cast<Batch*>(batch)->hold(bytes, to);
      };
    return all;
  }
  template <batch_use Use, class Batch>
  static constexpr functions functions_of = make_functions<Use, Batch>();

  batch_ref(void* batch, functions const& call) : batch_{batch}, call_{call} {}

  void* batch_;
  functions const& call_;
};

/// Releases deferred sends in a forwarding exchange.
class gate_ref {
 public:
  template <class Gate>
  explicit gate_ref(Gate& gate)
      : gate_{&gate}, release_{[](void* of, std::size_t message) {
          static_cast<Gate*>(of)->release(message);
        }} {}
  void release(std::size_t message) const { release_(gate_, message); }

 private:
  void* gate_;
  void (*release_)(void*, std::size_t);
};

}  // namespace detail

/// A reference to a communicator; itself a communicator of host memory. The optional functions have
/// other names here, as whether the communicator has them is known only at run time.
/// @cost one call through a pointer for each message and each call
class communicator_ref {
 public:
  using post = detail::function_ref<void(detail::batch_ref const&)>;
  using visit = detail::function_ref<void(std::span<std::span<std::byte const> const>)>;
  using arrived =
      detail::function_ref<void(std::size_t, std::span<std::byte const>, detail::gate_ref const&)>;

  template <communicator Comm>
  requires(!std::same_as<std::remove_const_t<Comm>, communicator_ref>) explicit communicator_ref(
      Comm& comm)
      : comm_{&comm}, call_{&functions_of<Comm>}, rank_{comm.rank()}, size_{comm.size()} {}

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Whether the host can access the memory that it works on.
  [[nodiscard]] bool in_host_memory() const { return call_->in_host_memory; }
  [[nodiscard]] bool lends() const { return call_->lend != nullptr; }
  [[nodiscard]] bool forwards() const { return call_->forward != nullptr; }

  void exchange(post name) const { call_->exchange(comm_, name); }
  /// @pre lends()
  void exchange_lending(post name, visit look) const { call_->lend(comm_, name, look); }
  /// @pre forwards()
  void exchange_forwarding(post name, arrived tell) const { call_->forward(comm_, name, tell); }
  /// As `agree`; does nothing if the communicator has no such function.
  void agree(std::uint64_t plan) const { call_->agree(comm_, plan); }
  /// Whether it has announce; without, `announce` does nothing and `has_agreed` need not be
  /// awaited.
  [[nodiscard]] bool announces() const { return call_->has_agreed != nullptr; }
  void announce(std::span<std::uint64_t const> plans) const { call_->announce(comm_, plans); }
  [[nodiscard]] bool has_agreed(std::uint64_t plan) const {
    return !announces() || call_->has_agreed(comm_, plan);
  }

  /// An all-gather of host values: mine [n] -> all [size, n] bytes, complete when it returns. Uses
  /// the communicator's gather_values, or else one exchange.
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) const {
    call_->gather_values(comm_, mine, all);
  }

  /// As those of a device_communicator.
  /// @pre !in_host_memory()
  void sum(device_sums const& sum) const { call_->sum(comm_, sum); }
  void convert(device_conversions const& of) const { call_->convert(comm_, of); }
  void copy(std::span<std::byte> to, std::span<std::byte const> from) const {
    call_->copy(comm_, to, from);
  }
  /// Whether it has the functions of a coding_communicator.
  [[nodiscard]] bool encodes() const { return call_->encode != nullptr; }
  /// @pre encodes()
  void encode(device_encoding const& of) const { call_->encode(comm_, of); }
  void encode(device_sum_encoding const& of) const { call_->encode_sum(comm_, of); }
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) const {
    return call_->allocate(comm_, bytes);
  }
  void free(std::span<std::byte> memory) const { call_->free(comm_, memory); }

 private:
  struct functions {
    bool in_host_memory;
    void (*exchange)(void*, post);
    void (*lend)(void*, post, visit);
    void (*forward)(void*, post, arrived);
    void (*agree)(void*, std::uint64_t);
    void (*announce)(void*, std::span<std::uint64_t const>);
    bool (*has_agreed)(void*, std::uint64_t);
    void (*gather_values)(void*, std::span<std::byte const>, std::span<std::byte>);
    void (*sum)(void*, device_sums const&);
    void (*convert)(void*, device_conversions const&);
    void (*copy)(void*, std::span<std::byte>, std::span<std::byte const>);
    void (*encode)(void*, device_encoding const&);
    void (*encode_sum)(void*, device_sum_encoding const&);
    std::span<std::byte> (*allocate)(void*, std::size_t);
    void (*free)(void*, std::span<std::byte>);
  };
  template <class Comm>
  [[nodiscard]] static constexpr functions make_functions() {
    auto all = functions{};
    static_assert(!stream_bound<Comm> || !std::same_as<memory_space_of<Comm>, host_memory>,
                  "this communicator is bound to a host stream: expected the one inside it");
    all.in_host_memory = std::same_as<memory_space_of<Comm>, host_memory>;
    all.exchange = [](void* comm, post name) {
      static_cast<Comm*>(comm)->exchange([&](exchange_batch auto& batch) {
        name(detail::batch_ref::of<detail::batch_use::exchange>(batch));
      });
    };
    if constexpr (lending_communicator<Comm>)
      all.lend = [](void* comm, post name, visit look) {
        static_cast<Comm*>(comm)->lend(
            [&](lending_batch auto& batch) {
              name(detail::batch_ref::of<detail::batch_use::lend>(batch));
            },
            [&](std::span<std::span<std::byte const> const> lent) { look(lent); });
      };
    if constexpr (forwarding_communicator<Comm>)
      all.forward = [](void* comm, post name, arrived tell) {
        static_cast<Comm*>(comm)->forward(
            [&](forwarding_batch auto& batch) {
              name(detail::batch_ref::of<detail::batch_use::forward>(batch));
            },
            [&](std::size_t wanted, std::span<std::byte const> bytes, release_gate auto& gate) {
              tell(wanted, bytes, detail::gate_ref{gate});
            });
      };
    all.agree = [](void* comm, std::uint64_t plan) {
      fssdp::agree(*static_cast<Comm*>(comm), plan);
    };
    all.announce = [](void* comm, std::span<std::uint64_t const> plans) {
      fssdp::announce(*static_cast<Comm*>(comm), plans);
    };
    if constexpr (announcing_communicator<Comm>)
      all.has_agreed = [](void* comm, std::uint64_t plan) {
        return static_cast<Comm*>(comm)->has_agreed(plan);
      };
    all.gather_values = [](void* of, std::span<std::byte const> mine, std::span<std::byte> into) {
      auto& comm = *static_cast<Comm*>(of);
      if constexpr (gathering_communicator<Comm>) {
        comm.gather_values(mine, into);
      } else {
        communicator_ref{comm}.exchange_values(mine, into);
        fssdp::synchronize(comm);
      }
    };
    if constexpr (!std::same_as<memory_space_of<Comm>, host_memory>) {
      static_assert(device_communicator<Comm>,
                    "a communicator of device memory must have copy, convert, sum, allocate and "
                    "summed");
      all.sum = [](void* comm, device_sums const& sum) { static_cast<Comm*>(comm)->sum(sum); };
      all.convert = [](void* comm, device_conversions const& of) {
        static_cast<Comm*>(comm)->convert(of);
      };
      all.copy = [](void* comm, std::span<std::byte> to, std::span<std::byte const> from) {
        static_cast<Comm*>(comm)->copy(to, from);
      };
      if constexpr (coding_communicator<Comm>) {
        all.encode = [](void* comm, device_encoding const& of) {
          static_cast<Comm*>(comm)->encode(of);
        };
        all.encode_sum = [](void* comm, device_sum_encoding const& of) {
          static_cast<Comm*>(comm)->encode(of);
        };
      }
      all.allocate = [](void* comm, std::size_t bytes) {
        return static_cast<Comm*>(comm)->allocate(bytes);
      };
      all.free = [](void* comm, std::span<std::byte> memory) {
        static_cast<Comm*>(comm)->free(memory);
      };
    }
    return all;
  }
  template <class Comm>
  static constexpr functions functions_of = make_functions<Comm>();

  void exchange_values(std::span<std::byte const> mine, std::span<std::byte> all) const;

  void* comm_;
  functions const* call_;
  rank_id rank_;
  int size_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/comm/communicator_ref_inl.hpp"
#endif
