// SPDX-License-Identifier: Apache-2.0
// Experts in a file and back, with the component checkpoint.
#include <filesystem>
#include <span>

#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"

int main() {
  auto wrong = 0;
  fssdp::thread_world{1}.run([&](fssdp::thread_communicator& comm) {
    auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
    auto weights = fssdp::make_shard<float>(layout, comm.rank(), 3);
    weights.tensors()[0][1][2] = 7;
    auto saved = fssdp::saved_part{"experts", layout, comm.rank(), {{"w", {3}}}};
    saved.add("weight", weights);
    fssdp::save_checkpoint(comm, std::span{&saved, 1}, {.folder = "stored_experts"});

    auto read = fssdp::make_shard<double>(layout, comm.rank(), 3);
    auto wanted = fssdp::loaded_part{"experts", layout, comm.rank(), {{"w", {3}}}};
    wanted.add("weight", read);
    auto reader = fssdp::checkpoint_reader{"stored_experts"};
    fssdp::load_checkpoint(comm, reader, std::span{&wanted, 1});
    wrong = read.tensors()[0][1][2] == 7 ? 0 : 1;
  });
  std::filesystem::remove_all("stored_experts");
  return wrong;
}
