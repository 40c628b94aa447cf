// SPDX-License-Identifier: Apache-2.0
/// A communicator that goes on when ranks are lost, of any back end, as one type.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/stream/stream.hpp"

namespace moe_gpt {

/// What trains and recovers is compiled once, with this. Errors are those of the communicator
/// inside.
class any_survivable {
 public:
  using stream_type = fssdp::inline_stream;
  using memory_space = fssdp::host_memory;

  /// Borrows a communicator, which outlives it.
  template <fssdp::survivable_communicator Comm>
  requires(!std::same_as<Comm, any_survivable>) explicit any_survivable(Comm& comm)
      : inner_{std::make_unique<holder<Comm&>>(comm)} {}

  [[nodiscard]] fssdp::rank_id rank() const { return inner_->ref().rank(); }
  [[nodiscard]] int size() const { return inner_->ref().size(); }
  /// The same as what collectives work with, as long as this lives.
  [[nodiscard]] fssdp::communicator_ref ref() const { return inner_->ref(); }
  template <class Post>
  void exchange(Post&& post) {
    inner_->ref().exchange([&](auto const& named) {
      auto batch = named;
      post(batch);
    });
  }

  [[nodiscard]] any_survivable duplicate() { return any_survivable{inner_->duplicate()}; }
  [[nodiscard]] std::vector<fssdp::rank_id> find_lost() { return inner_->find_lost(); }
  [[nodiscard]] any_survivable without(std::span<fssdp::rank_id const> lost) {
    return any_survivable{inner_->without(lost)};
  }

 private:
  class base {
   public:
    base() = default;
    base(base const&) = delete;
    base& operator=(base const&) = delete;
    virtual ~base() = default;
    [[nodiscard]] virtual fssdp::communicator_ref ref() = 0;
    [[nodiscard]] virtual std::unique_ptr<base> duplicate() = 0;
    [[nodiscard]] virtual std::vector<fssdp::rank_id> find_lost() = 0;
    [[nodiscard]] virtual std::unique_ptr<base> without(std::span<fssdp::rank_id const> lost) = 0;
  };
  /// @tparam Held a communicator, or a reference to one
  template <class Held>
  class holder final : public base {
    using comm_type = std::remove_reference_t<Held>;

   public:
    explicit holder(Held&& comm) : comm_{std::forward<Held>(comm)} {}
    [[nodiscard]] fssdp::communicator_ref ref() override { return fssdp::communicator_ref{comm_}; }
    [[nodiscard]] std::unique_ptr<base> duplicate() override { return own(comm_.duplicate()); }
    [[nodiscard]] std::vector<fssdp::rank_id> find_lost() override { return comm_.find_lost(); }
    [[nodiscard]] std::unique_ptr<base> without(std::span<fssdp::rank_id const> lost) override {
      return own(comm_.without(lost));
    }

   private:
    template <class Other>
    [[nodiscard]] static std::unique_ptr<base> own(Other made) {
      return std::make_unique<holder<Other>>(std::move(made));
    }
    Held comm_;
  };

  explicit any_survivable(std::unique_ptr<base> inner) : inner_{std::move(inner)} {}

  std::unique_ptr<base> inner_;
};

static_assert(fssdp::survivable_communicator<any_survivable>);
static_assert(fssdp::duplicable_communicator<any_survivable>);

}  // namespace moe_gpt
