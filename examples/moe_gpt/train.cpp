// SPDX-License-Identifier: Apache-2.0
// The training loop on threads, for every type on the wire. Another back end would begin here.
#include "train.hpp"

#include <chrono>
#include <utility>

#include "fssdp/comm/thread.hpp"
#include "fssdp/core/dtype.hpp"
#include "trainer.hpp"

namespace moe_gpt {

run_record train(options const& chosen, corpus const& text,
                 std::function<void(step_record const&)> const& observe) {
  auto result = run_record{};
  auto world = fssdp::thread_world{{.ranks = chosen.ranks, .deadline = std::chrono::minutes{10}}};
  world.run([&](fssdp::communicator auto& comm) {
    auto record = [&] {
      switch (chosen.wire) {
        case wire::bf16:
          return train_rank<float, fssdp::bf16>(comm, chosen, text, observe);
        case wire::fp16:
          return train_rank<float, fssdp::fp16>(comm, chosen, text, observe);
        case wire::fp32:
          break;
      }
      return train_rank<float, float>(comm, chosen, text, observe);
    }();
    if (comm.rank() == fssdp::rank_id{0}) result = std::move(record);
  });
  return result;
}

}  // namespace moe_gpt
