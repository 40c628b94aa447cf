// SPDX-License-Identifier: Apache-2.0
// Checkpoints of weights and two moments, saved and loaded. Bound: the same threads write or read
// as many bytes of the same memory as plain files, 8 MiB at a time, as dd does, and flush them. All
// files are in the folder for temporary files (TMPDIR says where).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "beside_bound.hpp"
#include "fssdp/all.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"

namespace {

namespace fs = std::filesystem;
using fssdp::rank_id;

/// Experts of 4 MiB and a bit, so many to a rank that weights and moments take so many MiB.
struct stored_scene {
  static constexpr auto elements = std::size_t{1} << 20U;
  static constexpr auto bias = std::size_t{1024};

  int ranks;
  fssdp::block_layout layout;
  std::vector<std::vector<fssdp::expert_buffer<float>>> shards;  // [ranks] of [groups]
  fs::path folder = fs::temp_directory_path() / ("fssdp_bench_" + std::to_string(::getpid()));

  explicit stored_scene(benchmark::State const& state)
      : ranks{static_cast<int>(state.range(0))},
        layout{{.experts = std::max(1, static_cast<int>(state.range(1)) / 12) * ranks,
                .ranks = ranks}} {
    auto const sizes = std::vector{elements, bias};
    for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
      auto& groups = shards.emplace_back();
      for (int g = 0; g < 3; ++g) {
        groups.push_back(fssdp::make_shard<float>(layout, rank, sizes));
        for (auto const& tensor : groups.back().tensors())
          for (std::size_t i = 0; i < tensor.slots * tensor.stride; ++i)
            tensor.data[i] = static_cast<float>(i * 2654435761U % 65521U);
      }
    }
    fs::create_directories(folder);
  }
  ~stored_scene() {
    auto ignored = std::error_code{};
    fs::remove_all(folder, ignored);
  }
  stored_scene(stored_scene const&) = delete;
  stored_scene& operator=(stored_scene const&) = delete;

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(layout.experts()) * 3 * (elements + bias) * sizeof(float);
  }
  template <class Part>
  [[nodiscard]] std::vector<Part> parts(rank_id rank) {
    auto made = std::vector<Part>{};
    auto& part = made.emplace_back(
        "experts", layout, rank,
        std::vector<fssdp::whole_tensor>{{"w1", {1024, elements / 1024}}, {"b1", {bias}}});
    auto const* const names = "abc";
    for (std::size_t g = 0; g < 3; ++g) part.add({names[g]}, shards[rank.index()][g]);
    return made;
  }
  [[nodiscard]] fs::path plain_file(rank_id rank) const {
    return folder / ("plain_" + std::to_string(rank.value()));
  }
  /// Calls visit(bytes) for all memory of a rank, 8 MiB at a time.
  template <class Visit>
  void for_each_piece(rank_id rank, Visit visit) {
    for (auto& buffer : shards[rank.index()])
      for (auto const& tensor : buffer.tensors()) {
        auto rest = std::as_writable_bytes(std::span{tensor.data, tensor.slots * tensor.stride});
        while (!rest.empty()) {
          auto const piece = rest.first(std::min(rest.size(), std::size_t{8} << 20U));
          visit(piece);
          rest = rest.subspan(piece.size());
        }
      }
  }
  void write_plainly(rank_id rank) {
    auto const file = ::open(plain_file(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for_each_piece(rank, [&](auto piece) {
      if (::write(file, piece.data(), piece.size()) != static_cast<::ssize_t>(piece.size()))
        throw std::runtime_error{"cannot write"};
    });
    if (::fsync(file) != 0) throw std::runtime_error{"cannot flush"};
    ::close(file);
  }
  void read_plainly(rank_id rank) {
    auto const file = ::open(plain_file(rank).c_str(), O_RDONLY);
    for_each_piece(rank, [&](auto piece) {
      if (::read(file, piece.data(), piece.size()) != static_cast<::ssize_t>(piece.size()))
        throw std::runtime_error{"cannot read"};
    });
    ::close(file);
  }
};

/// What is in the kernel's cache of a file is dropped: it comes from the disk again.
void forget(fs::path const& path) {
  auto const file = ::open(path.c_str(), O_RDONLY);
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

void save(benchmark::State& state) {
  auto scene = stored_scene{state};
  measure(
      state, {.ranks = scene.ranks, .bytes = scene.bytes()},
      [&](auto& comm) {
        auto const parts = scene.parts<fssdp::saved_part>(comm.rank());
        (void)fssdp::save_checkpoint(comm, parts, {.folder = scene.folder});
      },
      [&](rank_id me) { scene.write_plainly(me); });
}

void load(benchmark::State& state) {
  auto scene = stored_scene{state};
  fssdp::thread_world{scene.ranks}.run([&](fssdp::thread_communicator& comm) {
    auto const parts = scene.parts<fssdp::saved_part>(comm.rank());
    (void)fssdp::save_checkpoint(comm, parts, {.folder = scene.folder});
    scene.write_plainly(comm.rank());
  });
  auto const of_step = fssdp::step_folder(scene.folder, 0);
  auto const is_cold = state.range(2) != 0;
  measure(
      state, {.ranks = scene.ranks, .bytes = scene.bytes()},
      [&](auto& comm) {
        if (is_cold) forget(of_step / fssdp::detail::rank_file_name(comm.rank(), scene.ranks, 1));
        auto const parts = scene.parts<fssdp::loaded_part>(comm.rank());
        auto reader = fssdp::checkpoint_reader{scene.folder};
        fssdp::load_checkpoint(comm, reader, parts);
      },
      [&](rank_id me) {
        if (is_cold) forget(scene.plain_file(me));
        scene.read_plainly(me);
      });
}

BENCHMARK(save)
    ->ArgNames({"ranks", "MiB_per_rank"})
    ->ArgsProduct({{1, 4}, {192}})
    ->UseManualTime()
    ->Iterations(2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(load)
    ->ArgNames({"ranks", "MiB_per_rank", "from_disk"})
    ->ArgsProduct({{1, 4}, {192}, {0, 1}})
    ->UseManualTime()
    ->Iterations(2)
    ->Unit(benchmark::kMillisecond);

}  // namespace
