// SPDX-License-Identifier: Apache-2.0
/// Memory in files, for data that does not fit into ordinary memory. Requires POSIX.
#pragma once

#include <fcntl.h>
#include <stdlib.h>  // mkostemp
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory_resource>
#include <system_error>
#include <utility>

#include "fssdp/core/error.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

namespace detail {

/// An open file in a folder, without a name there, which only this user can read. Every function
/// throws a file_error with the folder and the cause.
class unnamed_file {
 public:
  explicit unnamed_file(std::filesystem::path const& folder) : folder_{folder} {
    auto name = (folder / "fssdp_XXXXXX").string();
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) refuse_file_for(errno, folder, "create a file in this folder");
    (void)::unlink(name.c_str());
  }
  unnamed_file(unnamed_file const&) = delete;
  unnamed_file& operator=(unnamed_file const&) = delete;
  ~unnamed_file() { (void)::close(descriptor_); }

  /// Sets its size, and reserves the disk space.
  void reserve(std::size_t bytes) {
    auto error = 0;
    do {
      error = ::posix_fallocate(descriptor_, 0, static_cast<::off_t>(bytes));
    } while (error == EINTR);
    if (error != 0) refuse_file_for(error, folder_, "reserve ", bytes, " bytes in this folder");
  }
  /// Maps its first bytes; the mapping outlives this object.
  [[nodiscard]] void* map(std::size_t bytes) {
    auto* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED)
      refuse_file_for(errno, folder_, "map ", bytes, " bytes of a file in this folder");
    return memory;
  }

 private:
  std::filesystem::path const& folder_;
  int descriptor_;
};

}  // namespace detail

/// A memory resource that allocates in files of a folder: for optimizer state and other data of
/// owners that is not needed in every step.
///
///     auto files = fssdp::file_memory{"/local/disk"};
///     auto moments = fssdp::make_shard<float>(layout, rank, elements, &files);
///
/// Each block is a mapped file. The system keeps as much of it in memory as fits, writes out the
/// least recently used pages, and reads them back when they are accessed. The files have no names,
/// so nothing is left when the process ends, even if it crashes. Disk space is reserved at
/// allocation; a later disk error raises SIGBUS, as with any mapping. Devices cannot access the
/// memory, and network libraries that pin send buffers may refuse it. Thread-safe.
class file_memory : public std::pmr::memory_resource {
 public:
  /// @throws file_error if `folder` is not a folder
  explicit file_memory(std::filesystem::path folder) : folder_{std::move(folder)} {
    auto ignored = std::error_code{};
    detail::require_file(std::filesystem::is_directory(folder_, ignored), folder_,
                         "is not a folder");
  }

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// The bytes that are allocated, in whole pages.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static std::size_t in_pages(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + page() - 1) / page() * page();
  }

  /// Allocates whole pages of zeros.
  /// @cost creates a file; each page is read from disk when it is first accessed
  /// @throws file_error that names folder, bytes and cause; argument_error if the alignment is
  ///         larger than a page
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    detail::require(alignment <= page(), "file_memory: an alignment of ", alignment,
                    " bytes; expected at most a page, ", page());
    auto file = detail::unnamed_file{folder_};
    file.reserve(in_pages(bytes));
    auto* const memory = file.map(in_pages(bytes));
    bytes_ += in_pages(bytes);
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
    (void)::munmap(memory, in_pages(bytes));
    bytes_ -= in_pages(bytes);
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }

  std::filesystem::path folder_;
  std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace fssdp
