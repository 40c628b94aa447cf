// SPDX-License-Identifier: Apache-2.0
/// Experts whose slots lie one by one are saved and loaded like others.
#include <array>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/temporary_folder.hpp"

namespace {

/// Three experts of two elements, each allocated by itself, out of order.
struct experts {
  std::vector<float> first, second, third;
  std::array<float*, 3> places;

  explicit experts(float value)
      : first{value, value + 1}, second{value + 2, value + 3}, third{value + 4, value + 5} {
    places = {second.data(), third.data(), first.data()};
  }
  [[nodiscard]] fssdp::expert_tensor<float> tensor() const {
    return {.slots = 3, .elements = 2, .places = places.data()};
  }
};

template <class Part>
[[nodiscard]] std::vector<Part> parts_of(experts const& of) {
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 1}};
  auto parts = std::vector<Part>{};
  parts.emplace_back("experts", layout, fssdp::rank_id{0},
                     std::vector<fssdp::whole_tensor>{{"w", {2}}});
  parts.back().add("weight", of.tensor());
  return parts;
}

}  // namespace

TEST_CASE("experts whose slots lie one by one are saved and loaded") {
  auto const folder = support::temporary_folder{};
  auto const saved = experts{1};
  auto const loaded = experts{0};
  fssdp::thread_world{1}.run([&](fssdp::thread_communicator& comm) {
    auto const parts = parts_of<fssdp::saved_part>(saved);
    (void)fssdp::save_checkpoint(comm, parts, {.folder = folder.path(), .step = 1});
    auto const copies = parts_of<fssdp::loaded_part>(loaded);  // parts that are copied keep places
    auto const into = copies;
    auto from = fssdp::checkpoint_reader{folder.path()};
    fssdp::load_checkpoint(comm, from, into);
  });
  REQUIRE(loaded.first == saved.first);
  REQUIRE(loaded.second == saved.second);
  REQUIRE(loaded.third == saved.third);
}
