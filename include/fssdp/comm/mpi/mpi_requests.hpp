// SPDX-License-Identifier: Apache-2.0
/// The MPI requests of a batch: parts that are sent or received.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

enum class mpi_part_kind {
  header_in,
  places_in,   ///< where the messages are that are read in place
  message_in,  ///< a message that is lent may be read now
  done_in,     ///< the peer has finished reading this rank's memory
  header_out,
  places_out,
  message_out,
  done_out,
};

/// What one request transfers: a message, a part of a large one, or a description of messages.
struct mpi_part {
  mpi_part_kind kind;
  int bytes;
  int tag;
  rank_id peer;
  std::byte* data;  // sends are only read
  std::size_t message;
  bool operator==(mpi_part const&) const = default;

  [[nodiscard]] bool comes_in() const { return kind < mpi_part_kind::header_out; }
  /// Whether it sends this rank's memory.
  [[nodiscard]] bool is_sent() const { return !comes_in() && kind != mpi_part_kind::done_out; }
  /// Whether this rank's memory is in use until it has ended.
  [[nodiscard]] bool ends_use() const { return kind == mpi_part_kind::done_in || is_sent(); }
};

/// The requests of a batch: one for each part, in the same order. Persistent ones are made once and
/// started again each time.
class mpi_requests {
 public:
  mpi_requests() = default;
  mpi_requests(mpi_requests&& other) noexcept { swap(other); }
  mpi_requests& operator=(mpi_requests&& other) noexcept {
    swap(other);
    return *this;
  }
  ~mpi_requests() = default;  // free() must be called before, if MPI still exists

  void swap(mpi_requests& other) {
    std::swap(all_, other.all_);
    std::swap(active_, other.active_);
    std::swap(persistent_, other.persistent_);
  }

  /// For a batch that is new.
  void make_plain(std::size_t parts) {
    persistent_ = false;
    all_.assign(parts, MPI_REQUEST_NULL);
    active_.assign(parts, 0);
  }
  /// For a batch that repeats.
  void make_persistent(std::span<mpi_part const> parts, mpi_group const& of) {
    make_plain(parts.size());
    persistent_ = true;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto const& p = parts[i];
      auto const to = p.peer.value();
      mpi_require(p.comes_in()
                      ? MPI_Recv_init(p.data, p.bytes, MPI_BYTE, to, p.tag, of.comm, &all_[i])
                      : MPI_Send_init(p.data, p.bytes, MPI_BYTE, to, p.tag, of.comm, &all_[i]),
                  of, p.peer, p.comes_in() ? "MPI_Recv_init" : "MPI_Send_init");
    }
  }
  /// Frees persistent requests. None may be active.
  void free() {
    if (persistent_)
      for (auto& request : all_)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    all_.clear();
  }

  void start(std::size_t i, mpi_part const& p, mpi_group const& of) {
    auto const to = p.peer.value();
    if (persistent_)
      mpi_require(MPI_Start(&all_[i]), of, p.peer, "MPI_Start");
    else if (p.comes_in())
      mpi_require(MPI_Irecv(p.data, p.bytes, MPI_BYTE, to, p.tag, of.comm, &all_[i]), of, p.peer,
                  "MPI_Irecv");
    else
      mpi_require(MPI_Isend(p.data, p.bytes, MPI_BYTE, to, p.tag, of.comm, &all_[i]), of, p.peer,
                  "MPI_Isend");
    active_[i] = 1;
  }

  /// Calls done(i, code) for completed requests, with MPI's error code. Returns whether there were
  /// any.
  template <class Done>
  bool test(Done done) {
    auto const count = static_cast<int>(all_.size());
    if (indices_.size() < all_.size()) {
      indices_.resize(all_.size());
      states_.resize(all_.size());
    }
    auto ended = 0;
    auto const code = MPI_Testsome(count, all_.data(), &ended, indices_.data(), states_.data());
    if (ended == MPI_UNDEFINED || ended <= 0) return false;
    auto const that_have = std::span{indices_}.first(static_cast<std::size_t>(ended));
    for (auto const i : that_have) active_[static_cast<std::size_t>(i)] = 0;
    for (std::size_t n = 0; n < that_have.size(); ++n) {
      auto const i = static_cast<std::size_t>(that_have[n]);
      auto const its_code = code == MPI_ERR_IN_STATUS ? states_[n].MPI_ERROR : code;
      if (its_code != MPI_SUCCESS && !persistent_ && all_[i] != MPI_REQUEST_NULL)
        MPI_Request_free(&all_[i]);  // Open MPI keeps it, and would report it again
      done(i, its_code);
    }
    return true;
  }
  /// Cancels receives that have not completed. Peers that still read this rank's memory say when
  /// they have finished.
  void cancel(std::span<mpi_part const> parts) {
    for (std::size_t i = 0; i < all_.size() && i < parts.size(); ++i)
      if (active_[i] != 0 && parts[i].comes_in() && parts[i].kind != mpi_part_kind::done_in)
        MPI_Cancel(&all_[i]);
  }
  [[nodiscard]] bool any_active() const {
    return std::ranges::find(active_, std::uint8_t{1}) != active_.end();
  }

 private:
  std::vector<MPI_Request> all_;      // [parts]
  std::vector<std::uint8_t> active_;  // [parts]
  bool persistent_ = false;
  std::vector<int> indices_;
  std::vector<MPI_Status> states_;
};

/// The requests of repeated batches, up to a limit. A batch that occurs for the second time, with
/// the same messages and addresses, gets persistent requests.
class mpi_repeats {
 public:
  /// The requests of a batch; none of them is active.
  [[nodiscard]] mpi_requests& requests_of(std::span<mpi_part const> parts, mpi_group const& of) {
    ++now_;
    auto const hash = hash_of(parts);
    for (auto& kept : kept_)
      if (kept.hash == hash && std::ranges::equal(kept.parts, parts)) {
        kept.used = now_;
        return kept.requests;
      }
    if (auto* const room = repeats(hash) ? find_room(parts.size()) : nullptr) {
      room->requests.free();
      room->requests.make_persistent(parts, of);
      room->parts.assign(parts.begin(), parts.end());
      room->hash = hash;
      room->used = now_;
      return room->requests;
    }
    plain_.make_plain(parts.size());
    return plain_;
  }
  /// Frees all requests. None may be active.
  void free() {
    for (auto& kept : kept_) kept.requests.free();
    kept_.clear();
  }

 private:
  static constexpr std::size_t most_batches = 64;
  static constexpr std::size_t most_parts = 4096;  // of one batch

  struct kept_batch {
    std::vector<mpi_part> parts;
    mpi_requests requests;
    std::uint64_t hash = 0;
    std::uint64_t used = 0;
  };

  [[nodiscard]] static std::uint64_t hash_of(std::span<mpi_part const> parts) {
    auto hash = std::uint64_t{parts.size()};
    for (auto const& p : parts) {
      hash ^= reinterpret_cast<std::uintptr_t>(p.data) + static_cast<std::uint64_t>(p.bytes);
      hash = (hash ^ (hash >> 29U)) * 0xbf58476d1ce4e5b9U;
      hash ^= (static_cast<std::uint64_t>(p.tag) << 32U) + p.peer.index() * 8 +
              static_cast<std::uint64_t>(p.kind);
      hash = (hash ^ (hash >> 32U)) * 0x94d049bb133111ebU;
    }
    return hash;
  }
  /// Whether a batch with this hash has occurred recently.
  [[nodiscard]] bool repeats(std::uint64_t hash) {
    if (seen_.empty()) seen_.assign(2 * most_batches, 0);
    if (std::ranges::count(seen_, hash) != 0) return true;
    seen_[now_ % seen_.size()] = hash;
    return false;
  }
  /// A place for another batch; null if all places are in use.
  [[nodiscard]] kept_batch* find_room(std::size_t parts) {
    if (parts > most_parts) return nullptr;
    if (kept_.size() < most_batches) return &kept_.emplace_back();
    auto const oldest = std::ranges::min_element(kept_, {}, &kept_batch::used);
    return oldest->used + 4 * most_batches < now_ ? &*oldest : nullptr;
  }

  std::uint64_t now_ = 0;
  std::vector<kept_batch> kept_;
  std::vector<std::uint64_t> seen_;  // hashes of recent batches without a place
  mpi_requests plain_;
};

}  // namespace fssdp::detail
