// SPDX-License-Identifier: Apache-2.0
/// The library without a back end: the umbrella, and a communicator of one's own of a single rank.
#include <cstddef>
#include <span>

#include "fssdp/fssdp.hpp"

struct only_rank {
  struct batch {
    void send(std::span<std::byte const>, fssdp::rank_id) {}
    void recv(std::span<std::byte>, fssdp::rank_id) {}
  };
  [[nodiscard]] fssdp::rank_id rank() const { return fssdp::rank_id{0}; }
  [[nodiscard]] int size() const { return 1; }
  template <class Post>
  void exchange(Post&& post) {
    auto none = batch{};
    post(none);
  }
};

int main() {
  auto comm = only_rank{};
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
  auto const plan = fssdp::make_plan(layout, fssdp::placement{layout});
  auto partials = fssdp::make_partials<float>(plan, comm.rank(), 1);
  auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 1);
  partials.tensors()[0][1][0] = 3;
  fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
  return gradients.tensors()[0][1][0] == 3 ? 0 : 1;
}
