// SPDX-License-Identifier: Apache-2.0
/// Memory in files: it works as memory, the files have no names, and errors name the folder.
#include "fssdp/file/file_memory.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "support/temporary_folder.hpp"

using fssdp::expert_buffer;
using fssdp::file_memory;

static_assert(!std::is_copy_constructible_v<file_memory>);

namespace {

constexpr auto file_sizes = std::array<std::size_t, 2>{1000, 7};

/// Numbers that tell elements apart, written or looked for.
[[nodiscard]] float number_at(std::size_t k, std::size_t i) {
  return static_cast<float>(10000 * k + i + 1);
}
void write_numbers(expert_buffer<float>& buffer) {
  for (std::size_t k = 0; k < file_sizes.size(); ++k)
    for (std::size_t i = 0; i < buffer.slots() * file_sizes[k]; ++i)
      buffer.tensors()[k].data[i] = number_at(k, i);
}
[[nodiscard]] int wrong_numbers(expert_buffer<float> const& buffer) {
  auto wrong = 0;
  for (std::size_t k = 0; k < file_sizes.size(); ++k)
    for (std::size_t i = 0; i < buffer.slots() * file_sizes[k]; ++i)
      wrong += buffer.tensors()[k].data[i] != number_at(k, i) ? 1 : 0;
  return wrong;
}

}  // namespace

TEST_CASE("a buffer in a file is zero at first, keeps what is written, grows, and moves") {
  auto const folder = support::temporary_folder{};
  auto files = file_memory{folder.path()};
  REQUIRE(files.folder() == folder.path());
  REQUIRE(files.bytes() == 0);
  {
    auto buffer = expert_buffer<float>{3, file_sizes, &files};
    auto const one = files.bytes();
    REQUIRE(one >= buffer.bytes());
    for (auto const& tensor : buffer.tensors()) {
      REQUIRE(reinterpret_cast<std::uintptr_t>(tensor.data) % 64 == 0);
      for (std::size_t i = 0; i < tensor.slots * tensor.elements; ++i) REQUIRE(tensor.data[i] == 0);
    }
    auto other = expert_buffer<float>{3, file_sizes, &files};  // a block of its own
    REQUIRE(files.bytes() == 2 * one);
    write_numbers(buffer);
    REQUIRE(other.tensors()[0].data[0] == 0);
    REQUIRE(wrong_numbers(buffer) == 0);
    auto const moved = std::move(buffer);
    REQUIRE(wrong_numbers(moved) == 0);
    other.resize(300);
    REQUIRE(files.bytes() >= one + other.bytes());
    write_numbers(other);
    REQUIRE(wrong_numbers(other) == 0);
    REQUIRE(wrong_numbers(moved) == 0);
    REQUIRE(std::filesystem::is_empty(folder.path()));  // a crash would leave nothing
  }
  REQUIRE(files.bytes() == 0);
  REQUIRE(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("memory in files comes in whole pages, and can be of no bytes") {
  auto const folder = support::temporary_folder{};
  auto files = file_memory{folder.path()};
  auto* const none = files.allocate(0);
  auto const page = files.bytes();
  REQUIRE(none != nullptr);
  REQUIRE(page > 0);
  auto* const more = files.allocate(page + 1, page);
  REQUIRE(reinterpret_cast<std::uintptr_t>(more) % page == 0);
  REQUIRE(files.bytes() == 3 * page);
  files.deallocate(none, 0);
  files.deallocate(more, page + 1, page);
  REQUIRE(files.bytes() == 0);
  REQUIRE_THROWS_AS(files.allocate(1, 2 * page), fssdp::argument_error);
  REQUIRE(files.is_equal(files));
  REQUIRE(!files.is_equal(file_memory{folder.path()}));
}

TEST_CASE("a file that cannot be created is an error with folder, bytes and cause") {
  auto const folder = support::temporary_folder{};
  auto const missing = folder.path() / "none";
  REQUIRE_THROWS_AS(file_memory{missing}, fssdp::file_error);
  REQUIRE_THROWS_WITH(file_memory{missing},
                      mentions(missing.string()) && mentions("is not a folder"));
  support::write_bytes(missing, "a file");
  REQUIRE_THROWS_WITH(file_memory{missing}, mentions("is not a folder"));
  std::filesystem::remove(missing);

  std::filesystem::create_directory(missing);
  auto files = file_memory{missing};
  auto buffer = expert_buffer<float>{1, file_sizes, &files};
  write_numbers(buffer);
  auto const bytes = files.bytes();
  // more than any file can have: no disk is filled
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2;
  REQUIRE_THROWS_AS(files.allocate(most), fssdp::file_error);
  REQUIRE_THROWS_WITH(files.allocate(most), mentions(missing.string() + ": cannot reserve") &&
                                                mentions(std::to_string(most + 1) + " bytes"));
  REQUIRE(std::filesystem::is_empty(missing));
  std::filesystem::remove(missing);
  REQUIRE_THROWS_WITH(buffer.resize(100), mentions(missing.string() + ": cannot create a file"));
  REQUIRE(files.bytes() == bytes);
  REQUIRE(buffer.slots() == 1);
  REQUIRE(wrong_numbers(buffer) == 0);
}

TEST_CASE("threads share files") {
  auto const folder = support::temporary_folder{};
  auto files = file_memory{folder.path()};
  auto wrong = std::array<int, 4>{};
  {
    auto threads = std::vector<std::jthread>{};
    for (auto& mine : wrong)
      threads.emplace_back([&files, &mine] {
        for (std::size_t slots = 1; slots <= 20; ++slots) {
          auto buffer = expert_buffer<float>{slots, file_sizes, &files};
          write_numbers(buffer);
          mine += wrong_numbers(buffer);
        }
      });
  }
  REQUIRE(wrong == std::array<int, 4>{});
  REQUIRE(files.bytes() == 0);
}
