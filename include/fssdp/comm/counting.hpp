// SPDX-License-Identifier: Apache-2.0
/// An adaptor that counts messages and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_adaptor.hpp"

namespace fssdp {

/// The messages and bytes of one rank.
struct exchange_counts {
  std::uint64_t exchanges = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_borrowed = 0;  ///< of those received: read in place, not copied
  friend bool operator==(exchange_counts const&, exchange_counts const&) = default;
};

/// Counts exchanges and passes everything on; it has the optional functions of the inner
/// communicator. Submitted work is counted when it runs. What a back end sends for agree, announce,
/// connect and gather_values is not counted. Copies share their counts.
/// @cost one allocation at construction
template <communicator Comm>
class counting : public communicator_adaptor<counting<Comm>, Comm> {
 public:
  explicit counting(Comm& comm) : counting{comm, std::make_shared<exchange_counts>()} {}

  /// @pre submitted work has been synchronized
  [[nodiscard]] exchange_counts const& counts() const { return *counts_; }
  void reset() { *counts_ = {}; }
  /// The adaptor for submitted work.
  template <communicator Inner>
  [[nodiscard]] counting<Inner> around(Inner& inner) const {
    return {inner, counts_};
  }

  template <class Post>
  void exchange(Post&& post) {
    ++counts_->exchanges;
    this->inner().exchange([&](exchange_batch auto& batch) { count(post, batch); });
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) requires lending_communicator<Comm> {
    ++counts_->exchanges;
    this->inner().lend([&](lending_batch auto& batch) { count(post, batch); },
                       std::forward<Visit>(visit));
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) requires forwarding_communicator<Comm> {
    ++counts_->exchanges;
    this->inner().forward([&](forwarding_batch auto& batch) { count(post, batch); },
                          std::forward<Arrived>(arrived));
  }

 private:
  template <communicator Other>
  friend class counting;

  counting(Comm& comm, std::shared_ptr<exchange_counts> counts)
      : counting::communicator_adaptor{comm}, counts_{std::move(counts)} {}

  struct counter {
    exchange_counts& counts;

    void sends(std::size_t bytes) {
      ++counts.messages_sent;
      counts.bytes_sent += bytes;
    }
    void receives(std::size_t bytes) {
      ++counts.messages_received;
      counts.bytes_received += bytes;
    }
    void borrows(std::size_t bytes) {
      receives(bytes);
      counts.bytes_borrowed += bytes;
    }
    void labels(batch_label const&) {}
  };
  template <class Post, class Batch>
  void count(Post& post, Batch& batch) {
    detail::observe(post, batch, counter{*counts_});
  }

  std::shared_ptr<exchange_counts> counts_;
};

}  // namespace fssdp
