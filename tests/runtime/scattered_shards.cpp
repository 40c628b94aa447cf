// SPDX-License-Identifier: Apache-2.0
/// Shards whose slots are allocated one by one, as a host framework's parameters are: they may move
/// between iterations.
#include <array>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::layer_id;
using fssdp::thread_communicator;
using support::overlap;
using support::toy_model;

namespace {

/// One tensor of all slots of a rank, each slot in memory of its own.
class scattered_tensor {
 public:
  scattered_tensor(std::size_t slots, std::size_t elements)
      : memory_(slots, std::vector<float>(elements)), places_(slots) {
    move();
  }
  /// Gives every slot other memory, with the same values.
  void move() {
    auto elsewhere = memory_;  // both are there: no new one is where the old ones are
    memory_.swap(elsewhere);
    for (auto& slot : elsewhere)
      std::fill(slot.begin(), slot.end(), -1e9F);  // to detect a read there
    for (std::size_t slot = 0; slot < memory_.size(); ++slot) places_[slot] = memory_[slot].data();
  }
  /// As gradients that are freed and made from scratch: no memory between iterations.
  void free() {
    for (auto& place : places_) place = nullptr;
  }
  [[nodiscard]] fssdp::any_tensor view() {
    return {.type = fssdp::dtype::fp32,
            .slots = memory_.size(),
            .elements = memory_.empty() ? 1 : memory_.front().size(),
            .places = places_.data()};
  }
  [[nodiscard]] std::vector<float>& operator[](std::size_t slot) { return memory_[slot]; }

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<void*> places_;
};

}  // namespace

TEST_CASE("slots that lie one by one may move between step and the next iteration") {
  constexpr auto iterations = 5;
  for (auto const how : {overlap::off, overlap::on})
    for (auto const replicas : {fssdp::retention::keep, fssdp::retention::rematerialize}) {
      auto const options = fssdp::materializer_options{
          .replicas = replicas, .replica_slots = 30, .partial_slots = 16};
      auto const wrong = support::on_all_ranks(4, [&](thread_communicator& comm) {
        auto model = toy_model{{}, comm.rank()};
        auto const slots = model.layouts().slots(comm.rank());
        auto const elements = model.shape().elements;
        auto weights = std::vector<scattered_tensor>{};
        auto gradients = std::vector<scattered_tensor>{};
        for (std::size_t k = 0; k < elements.size(); ++k) {
          weights.emplace_back(slots, elements[k]);
          gradients.emplace_back(slots, elements[k]);
          for (std::size_t slot = 0; slot < slots; ++slot)
            std::ranges::copy(model.weights().tensors()[k][slot], weights[k][slot].begin());
        }
        auto const views = [](std::vector<scattered_tensor>& of) {
          return std::array{of[0].view(), of[1].view()};
        };
        auto other = comm.duplicate();
        auto expected = toy_model{{}, comm.rank()};
        auto same = support::make_layers(other, expected, options);
        support::run_on_stream(comm, how, [&](auto& streamed) {
          auto layers = fssdp::materializer{
              streamed,
              fssdp::expert_shards{model.layouts(), elements, views(weights), views(gradients)},
              {.placement = support::three_replicas()},
              options};
          for (int i = 0; i < iterations; ++i) {
            support::go_through(model, layers, i);
            layers.step();
            support::train_once(expected, same, i);
            for (std::size_t k = 0; k < elements.size(); ++k) {
              for (std::size_t slot = 0; slot < slots; ++slot)
                for (std::size_t j = 0; j < elements[k]; ++j)
                  weights[k][slot][j] -= gradients[k][slot][j] / 64;
              weights[k].move();
              gradients[k].free();
            }
            for (auto const layer : fssdp::first_n<layer_id>(layers.layers()))
              layers.prefetch(layer);  // reads no gradients
            for (auto& tensor : gradients) tensor.move();
          }
          (void)layers.step();
        });
        auto errors = 0;
        for (std::size_t k = 0; k < elements.size(); ++k)
          for (std::size_t slot = 0; slot < slots; ++slot)
            errors +=
                std::ranges::equal(weights[k][slot], expected.weights().tensors()[k][slot]) ? 0 : 1;
        return errors;
      });
      CAPTURE(how == overlap::on, replicas == fssdp::retention::keep);
      REQUIRE(wrong == std::vector(4, 0));
    }
}
