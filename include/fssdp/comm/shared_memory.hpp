// SPDX-License-Identifier: Apache-2.0
/// Memory that other processes of the same host can read in place, on Linux.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "fssdp/core/error.hpp"

namespace fssdp {

namespace detail {

/// What another process needs to open a shared_memory; a plain value, to be sent.
struct shared_memory_name {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;  // in that process; -1 if there is none
  std::uint64_t bytes = 0;
  std::uint64_t mark = 0;  // its first bytes, by which it is identified
};

/// Creates a nameless file in memory; returns a negative number and sets errno if that fails.
[[nodiscard]] inline int make_memory_file() {
#ifdef __linux__
  return ::memfd_create("fssdp", MFD_CLOEXEC);
#else
  errno = ENOSYS;
  return -1;
#endif
}
/// Frees pages of such a file for all processes that have mapped it; they then read zeros.
inline void empty_pages(int descriptor, std::size_t begin, std::size_t bytes) {
#ifdef __linux__
  (void)::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<::off_t>(begin), static_cast<::off_t>(bytes));
#else
  (void)descriptor, (void)begin, (void)bytes;
#endif
}

/// A mapping of pages of an open file.
class mapped_pages {
 public:
  mapped_pages() = default;
  /// Empty if the system cannot map them.
  mapped_pages(int descriptor, std::size_t bytes, int protection) {
    auto* const memory =
        ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (memory != MAP_FAILED) all_ = {static_cast<std::byte*>(memory), bytes};
  }
  mapped_pages(mapped_pages&& other) noexcept : all_{std::exchange(other.all_, {})} {}
  mapped_pages& operator=(mapped_pages&& other) noexcept {
    std::swap(all_, other.all_);
    return *this;
  }
  ~mapped_pages() {
    if (!all_.empty()) (void)::munmap(all_.data(), all_.size());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return all_; }

 private:
  std::span<std::byte> all_;
};

/// Maps the memory of another process for reading; empty if that is not possible: the process is on
/// another host, of another user, or in another container.
[[nodiscard]] inline mapped_pages open_shared_memory(shared_memory_name const& name) {
  if (name.descriptor < 0) return {};
  auto const path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
  auto const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  auto const is_long_enough = ::lseek(descriptor, 0, SEEK_END) >= static_cast<::off_t>(name.bytes);
  auto pages = is_long_enough ? mapped_pages{descriptor, name.bytes, PROT_READ} : mapped_pages{};
  (void)::close(descriptor);
  if (pages.bytes().empty()) return {};
  auto mark = std::uint64_t{0};
  std::memcpy(&mark, pages.bytes().data(), sizeof mark);
  return mark == name.mark ? std::move(pages) : mapped_pages{};
}

}  // namespace detail

/// A memory resource whose memory other processes of the host, of the same user, can read in place:
///
///     auto memory = fssdp::shared_memory{};
///     auto weights = fssdp::make_shard<float>(layout, rank, elements, &memory);
///
/// Ranks that are processes then copy experts from one another directly, and sum partial gradients
/// without a copy (mpi_options::shared); otherwise messages go through the kernel. Pages are
/// allocated when they are first accessed, and freed with their block. Nothing is left when the
/// process ends, even if it crashes. Thread-safe.
class shared_memory : public std::pmr::memory_resource {
 public:
  /// With the size of the host's memory as capacity.
  /// @throws as below
  shared_memory() : shared_memory{static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page()} {}
  /// @param capacity the most bytes that can be allocated at a time; reserves addresses only
  /// @throws argument_error if it is 0; std::system_error if the system cannot reserve it
  explicit shared_memory(std::size_t capacity) : capacity_{in_pages(capacity)} {
    detail::require(capacity > 0, "shared_memory: a capacity of 0 bytes; expected 1 or more");
    descriptor_ = detail::make_memory_file();
    if (descriptor_ < 0) refuse(errno);
    auto const all = page() + capacity_;  // the mark, and the memory to allocate
    if (::ftruncate(descriptor_, static_cast<::off_t>(all)) != 0) close_and_refuse(errno);
    pages_ = {descriptor_, all, PROT_READ | PROT_WRITE};
    if (pages_.bytes().empty()) close_and_refuse(errno);
    auto random = std::random_device{};
    mark_ = (std::uint64_t{random()} << 32U) ^ random();
    std::memcpy(pages_.bytes().data(), &mark_, sizeof mark_);
    free_.emplace(page(), capacity_);
  }
  shared_memory(shared_memory const&) = delete;
  shared_memory& operator=(shared_memory const&) = delete;
  ~shared_memory() override { (void)::close(descriptor_); }

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// The bytes that are allocated now, in whole pages.
  [[nodiscard]] std::size_t bytes() const {
    auto const lock = std::scoped_lock{mutex_};
    return bytes_;
  }

  /// What another process needs to open it.
  [[nodiscard]] detail::shared_memory_name name() const {
    return {::getpid(), descriptor_, pages_.bytes().size(), mark_};
  }
  /// The offset of these bytes in it; empty if they are not in it.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::span<std::byte const> bytes) const {
    auto const first = reinterpret_cast<std::uintptr_t>(bytes.data());
    auto const begin = reinterpret_cast<std::uintptr_t>(pages_.bytes().data());
    if (first < begin || first - begin > pages_.bytes().size()) return {};
    if (bytes.size() > pages_.bytes().size() - (first - begin)) return {};
    return first - begin;
  }

 private:
  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static std::size_t in_pages(std::size_t bytes) {
    auto const whole = std::max<std::size_t>(bytes, 1) + page() - 1;
    detail::require(whole >= bytes && whole < std::size_t{1} << 62U, "shared_memory: ", bytes,
                    " bytes; expected fewer than can be addressed");
    return whole / page() * page();
  }
  [[noreturn]] static void refuse(int error) {
    throw std::system_error{error, std::generic_category(), "shared_memory"};
  }
  [[noreturn]] void close_and_refuse(int error) const {
    (void)::close(descriptor_);
    refuse(error);
  }

  /// Allocates whole pages of zeros, first-fit.
  /// @throws argument_error if there are not enough consecutive pages, or the alignment is more
  ///         than a page
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    detail::require(alignment <= page(), "shared_memory: an alignment of ", alignment,
                    " bytes; expected at most a page, ", page());
    auto const size = in_pages(bytes);
    auto const lock = std::scoped_lock{mutex_};
    auto const room =
        std::ranges::find_if(free_, [&](auto const& it) { return it.second >= size; });
    detail::require(room != free_.end(), "shared_memory: ", bytes, " bytes besides ", bytes_,
                    " in use; expected to fit, contiguously, into a capacity of ", capacity_);
    auto const [begin, free] = *room;
    free_.erase(room);
    if (free > size) free_.emplace(begin + size, free - size);
    bytes_ += size;
    return pages_.bytes().data() + begin;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
    auto const size = in_pages(bytes);
    auto const begin =
        static_cast<std::size_t>(static_cast<std::byte*>(memory) - pages_.bytes().data());
    auto const lock = std::scoped_lock{mutex_};
    detail::empty_pages(descriptor_, begin, size);
    bytes_ -= size;
    auto at = free_.emplace(begin, size).first;
    if (auto const next = std::next(at); next != free_.end() && begin + size == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (auto const last = std::prev(at); last->first + last->second == begin) {
      last->second += at->second;
      free_.erase(at);
    }
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }

  std::size_t capacity_;
  int descriptor_ = -1;
  detail::mapped_pages pages_;
  std::uint64_t mark_ = 0;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // begin of each free range of pages, and its bytes
  std::size_t bytes_ = 0;
};

}  // namespace fssdp
