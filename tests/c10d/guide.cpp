// SPDX-License-Identifier: Apache-2.0
/// What the README of include/fssdp/comm shows of PyTorch's tensors.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/c10d.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

namespace guide {

#include "guides/include/fssdp/comm/README.md/6.inc"

}  // namespace guide

TEST_CASE("tensors are gathered as in the guide") {
  auto const layout = fssdp::block_layout{{.experts = 6, .ranks = 3}};
  auto const plan =
      fssdp::make_plan(layout, fssdp::everywhere{}(fssdp::expert_loads(6, 1), layout));
  auto const wrong = c10d_tests::results_of(3, [&](c10d_tests::group_maker make_group) {
    auto const me = make_group.rank();
    auto w1 = at::empty({2, 5}, at::kFloat);
    auto w2 = std::vector<at::Tensor>{};
    for (std::int64_t slot = 0; auto const chunk : layout.owned(me)) {
      w1[slot++].fill_(chunk.expert.value());
      w2.push_back(at::full({3, 2}, 10 + chunk.expert.value(), at::kFloat));
    }
    auto const r1 = at::empty({4, 5}, at::kFloat);
    auto const r2 = at::empty({4, 3, 2}, at::kFloat);
    guide::gather(make_group(), plan, w1, w2, r1, r2);
    auto errors = 0;
    for (std::size_t slot = 0; auto const expert : plan.remote(me)) {
      for (std::size_t i = 0; i < 5; ++i)
        errors += r1.data_ptr<float>()[slot * 5 + i] == static_cast<float>(expert.value()) ? 0 : 1;
      for (std::size_t i = 0; i < 6; ++i)
        errors +=
            r2.data_ptr<float>()[slot * 6 + i] == static_cast<float>(10 + expert.value()) ? 0 : 1;
      ++slot;
    }
    return errors;
  });
  REQUIRE(wrong == std::vector<int>(3));
}
