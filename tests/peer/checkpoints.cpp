// SPDX-License-Identifier: Apache-2.0
/// Experts that are on devices are saved into the files that the host would write, and loaded from
/// them.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/cuda/cuda_staging.hpp"
#include "peer/devices.hpp"
#include "support/device_bits.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::peer_communicator;

namespace {

/// Tensors of more than a block of 1 MiB, and small ones.
struct model_on_devices {
  support::stored_model model{5, {{"w1", {700, 1000}}, {"b1", {33}}}};
  support::reversed_layout layout;

  explicit model_on_devices(int ranks) : layout{ranks, owners(ranks), 1} {}

  void save(peer_communicator& comm, std::filesystem::path const& folder, bool from_device) const {
    auto weights = support::filled_shard<float>(model, layout, comm.rank(), 0);
    auto moments = support::filled_shard<fssdp::bf16>(model, layout, comm.rank(), 1);
    auto part = fssdp::saved_part{"experts", layout, comm.rank(), model.tensors};
    if (from_device) {
      auto by = fssdp::cuda_staging{comm.stream(), std::size_t{1} << 20U, comm.rank()};
      auto const on_device = support::on_device{comm, weights};
      comm.synchronize();
      part.add("weight", on_device.tensors(), by).add("moment1", moments);
      (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, {.folder = folder, .step = 1});
    } else {
      part.add("weight", weights).add("moment1", moments);
      (void)fssdp::save_checkpoint(comm, std::span{&part, 1}, {.folder = folder, .step = 1});
    }
  }
  [[nodiscard]] support::differences wrong_when_loaded(peer_communicator& comm,
                                                       std::filesystem::path const& folder) const {
    auto weights = fssdp::make_shard<double>(layout, comm.rank(), model.elements());
    {
      auto by = fssdp::cuda_staging{comm.stream()};
      auto on_device = support::on_device{comm, weights};
      auto part = fssdp::loaded_part{"experts", layout, comm.rank(), model.tensors};
      part.add("weight", on_device.tensors(), by);
      auto reader = fssdp::checkpoint_reader{folder};
      fssdp::load_checkpoint(comm, reader, std::span{&part, 1});
    }
    return support::wrong_elements(model, layout, comm.rank(), 0, weights);
  }

 private:
  [[nodiscard]] static std::vector<fssdp::rank_id> owners(int ranks) {
    auto all = std::vector<fssdp::rank_id>{};
    for (int expert = 0; expert < 5; ++expert) all.emplace_back(expert % ranks);
    return all;
  }
};

}  // namespace

TEST_CASE("experts on devices are saved into the same files as from the host, and loaded again") {
  gpu_double::reset({.only_device_memory = true});
  auto const folder = support::temporary_folder{};
  auto const of = model_on_devices{3};
  peer_tests::on_devices({.ranks = 3}, [&](peer_communicator& comm) {
    of.save(comm, folder.path() / "host", false);
    of.save(comm, folder.path() / "device", true);
  });
  auto bytes_of = [&](char const* from, int rank) {
    return support::bytes_of_file(folder.path() / from / "step_00000001" /
                                  ("rank_" + std::to_string(rank) + "_of_3.1.safetensors"));
  };
  for (auto rank = 0; rank < 3; ++rank) {
    REQUIRE(bytes_of("host", rank).size() > 1'000'000);
    REQUIRE(bytes_of("host", rank) == bytes_of("device", rank));
  }
  auto const others = model_on_devices{2};
  auto const wrong = peer_tests::results_of({.ranks = 2}, [&](peer_communicator& comm) {
    return others.wrong_when_loaded(comm, folder.path() / "device");
  });
  for (auto const& of_rank : wrong) REQUIRE(of_rank == 0);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
