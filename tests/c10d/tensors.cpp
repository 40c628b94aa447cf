// SPDX-License-Identifier: Apache-2.0
/// Tensors of torch as memory of experts: parameters of a module each, stacked ones, pools from
/// torch's allocators; what cannot be one is refused by name.
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/c10d.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "support/small_integers.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

using c10d_tests::group_maker;
using fssdp::dtype;
using fssdp::torch_tensors;

namespace {

/// The text with which `add` is refused; empty if it is not.
template <class... Arguments>
[[nodiscard]] std::string refusal_of(Arguments const&... arguments) {
  auto tensors = torch_tensors{};
  try {
    tensors.add("layer 3, w1", arguments...);
  } catch (fssdp::argument_error const& error) {
    return error.what();
  }
  return {};
}

/// Gives memory of the host, and counts it.
class counting_allocator : public c10::Allocator {
 public:
  static inline std::size_t blocks = 0;
  static inline std::size_t misplaced_by = 0;

  c10::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DataPtr allocate(std::size_t bytes) const {  // before torch 2.4 this one is called
    ++blocks;
    auto* const memory = static_cast<char*>(::operator new (bytes + 64, std::align_val_t{64}));
    auto* const given = memory + misplaced_by;
    return {given, given, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const { return &give_back; }
  void copy_data(void* to, void const* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  static void give_back(void* memory) {
    --blocks;
    ::operator delete (static_cast<char*>(memory) - misplaced_by, std::align_val_t{64});
  }
};

constexpr auto experts = 8;
constexpr auto layers = 3;
constexpr auto sizes = std::array<std::size_t, 2>{15, 6};

/// The parameter of an expert, and what a rank adds to its gradient.
[[nodiscard]] float parameter(std::size_t expert, std::size_t k, std::size_t i) {
  return static_cast<float>(support::small_integer({1, expert, k, i}));
}
[[nodiscard]] float partial(std::size_t rank, std::size_t expert, std::size_t k, std::size_t i) {
  return static_cast<float>(support::small_integer({2, rank, expert, k, i}));
}

/// What a rank owns: the first tensor of every expert by itself, as modules have them, of floats; the
/// second stacked, of BFloat16; gradients of floats likewise.
struct rank_parameters {
  std::vector<at::Tensor> first, first_gradients;
  at::Tensor second, second_gradients;
  torch_tensors weights, gradients;

  explicit rank_parameters(std::vector<fssdp::chunk_id> const& owned) {
    auto const slots = static_cast<std::int64_t>(owned.size());
    second = at::empty({slots, 2, 3}, at::kBFloat16);
    second_gradients = at::zeros({slots, 2, 3}, at::kFloat);
    for (std::size_t slot = 0; slot < owned.size(); ++slot) {
      auto const expert = owned[slot].expert.index();
      first.push_back(at::empty({5, 3}, at::kFloat));
      first_gradients.push_back(at::zeros({5, 3}, at::kFloat));
      for (std::size_t i = 0; i < sizes[0]; ++i)
        first.back().data_ptr<float>()[i] = parameter(expert, 0, i);
      for (std::size_t i = 0; i < sizes[1]; ++i)
        second.data_ptr<c10::BFloat16>()[slot * sizes[1] + i] = parameter(expert, 1, i);
    }
    weights.add("first", first).add("second", second);
    gradients.add("gradients of first", first_gradients)
        .add("gradients of second", second_gradients);
  }
  /// The gradients of a slot.
  [[nodiscard]] float const* gradient(std::size_t k, std::size_t slot) const {
    return k == 0 ? first_gradients[slot].data_ptr<float>()
                  : second_gradients.data_ptr<float>() + slot * sizes[1];
  }
};

/// Trains for two steps; how many numbers are wrong.
template <class Comm>
[[nodiscard]] int train(Comm& comm, std::pmr::memory_resource& memory) {
  auto const me = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto const layouts = fssdp::layer_stack<fssdp::table_layout>{std::vector(
      layers, fssdp::as_table(fssdp::block_layout{{.experts = experts, .ranks = comm.size()}}))};
  auto mine = rank_parameters{layouts.owned(me)};
  auto of = fssdp::materializer{comm,
                                fssdp::expert_shards{layouts, sizes, mine.weights, mine.gradients},
                                {.placement = fssdp::everywhere{}},
                                {.replicas = fssdp::retention::rematerialize,
                                 .replica_slots = 2 * experts,
                                 .partial_slots = 2 * experts,
                                 .memory = &memory}};
  auto wrong = 0;
  for (auto step = 0; step < 2; ++step) {
    for (auto const layer : fssdp::first_n<fssdp::layer_id>(layers)) {
      of.acquire(layer);
      for (auto const& expert : of.any_experts(layer)) {
        auto const global = layer.index() * experts + expert.id.index();
        auto const* const first = static_cast<float const*>(expert.tensors[0].data);
        auto const* const second = static_cast<c10::BFloat16 const*>(expert.tensors[1].data);
        for (std::size_t i = 0; i < sizes[0]; ++i) wrong += first[i] != parameter(global, 0, i);
        for (std::size_t i = 0; i < sizes[1]; ++i)
          wrong += static_cast<float>(second[i]) != parameter(global, 1, i);
      }
      of.release(layer);
    }
    for (auto l = layers; l-- != 0;) {
      auto const layer = fssdp::layer_id{l};
      of.acquire(layer, 0, fssdp::training_pass::backward);
      auto const held = of.any_experts(layer);
      auto const partials = of.any_partials(layer);
      for (std::size_t k = 0; k < sizes.size(); ++k)
        for (std::size_t slot = 0; slot < held.size(); ++slot)
          for (std::size_t i = 0; i < sizes[k]; ++i)
            static_cast<float*>(partials[k].data)[slot * partials[k].stride + i] =
                partial(me.index(), layer.index() * experts + held[slot].id.index(), k, i);
      of.release(layer);
      of.reduce(layer);
    }
    of.step();
    auto const owned = layouts.owned(me);
    for (std::size_t slot = 0; slot < owned.size(); ++slot)
      for (std::size_t k = 0; k < sizes.size(); ++k)
        for (std::size_t i = 0; i < sizes[k]; ++i) {
          auto sum = 0.0F;
          for (std::size_t rank = 0; rank < ranks; ++rank)
            sum += partial(rank, owned[slot].expert.index(), k, i);
          wrong += mine.gradient(k, slot)[i] != sum;
        }
  }
  return wrong;
}

/// As the README of include/fssdp/comm has it.
void gather(c10::intrusive_ptr<c10d::ProcessGroup> group, fssdp::transfer_plan const& plan,
            at::Tensor w1, std::vector<at::Tensor> w2, at::Tensor r1, at::Tensor r2) {
  auto comm = fssdp::c10d_communicator{group};
  auto weights = torch_tensors{};
  auto replicas = torch_tensors{};
  weights.add("w1", w1).add("w2", w2);
  replicas.add("w1", r1).add("w2", r2);
  fssdp::sparse_all_gather(comm, plan, weights, replicas);
  replicas.mark_written();
}

}  // namespace

TEST_CASE("tensors of torch are used in place as memory of experts") {
  auto const types = std::vector<std::pair<at::ScalarType, dtype>> {
    {at::kFloat, dtype::fp32}, {at::kDouble, dtype::fp64}, {at::kBFloat16, dtype::bf16},
        {at::kHalf, dtype::fp16},
#if __has_include(<c10/util/Float8_e4m3fn.h>)
        {at::kFloat8_e4m3fn, dtype::e4m3}, {at::kFloat8_e5m2, dtype::e5m2},
#endif
  };
  for (auto const& [scalar, type] : types) {
    auto const stacked = at::empty({4, 3, 5}, scalar);
    auto const apart = at::empty({4, 20}, scalar).slice(1, 0, 15);  // rows that lie 20 apart
    auto const each = std::vector{at::empty({3, 5}, scalar), at::empty({15}, scalar)};
    auto tensors = torch_tensors{};
    tensors.add("stacked", stacked).add("apart", apart).add("each", each);
    tensors.add("none", std::vector<at::Tensor>{}, each[0]).add("listed", {each[1], each[0]});
    auto const moved = std::move(tensors);
    auto const views = moved.tensors();
    REQUIRE(views.size() == 5);
    for (auto const& view : views) {
      REQUIRE(view.type == type);
      REQUIRE(view.elements == 15);
      REQUIRE(fssdp::scalar_type_of(view.type) == scalar);
    }
    REQUIRE((views[0].data == stacked.data_ptr() && views[0].slots == 4 && views[0].stride == 15));
    REQUIRE((views[1].data == apart.data_ptr() && views[1].slots == 4 && views[1].stride == 20));
    REQUIRE((views[2].slots == 2 && views[2].places[1] == each[1].data_ptr()));
    REQUIRE(views[3].slots == 0);
    REQUIRE((views[4].slots == 2 && views[4].places[1] == each[0].data_ptr()));
  }
}

TEST_CASE("tensors that cannot be memory of experts are errors that name them") {
  auto const good = at::empty({2, 3}, at::kFloat);
  REQUIRE(refusal_of(good).empty());
  auto const refused = [](std::string const& text, std::string const& part) {
    REQUIRE_THAT(text, mentions("layer 3, w1"));
    REQUIRE_THAT(text, mentions(part));
  };
  refused(refusal_of(at::empty({2, 3, 4}, at::kFloat).transpose(1, 2)),
          "is not contiguous: sizes [2, 4, 3], strides [12, 1, 4]; expected .contiguous()");
  refused(refusal_of(at::empty({3}, at::kFloat).expand({2, 3})), "0 apart; expected 3 or more");
  refused(refusal_of(at::empty({}, at::kFloat)), "expected [slots, ...]");
  refused(refusal_of(at::empty({2, 3}, at::kLong)), "a tensor of Long; expected float, double");
  refused(refusal_of(at::Tensor{}), "an undefined tensor");
  refused(refusal_of(at::empty({2, 3}, at::TensorOptions{at::kFloat}.device(at::kMeta))),
          "a tensor on meta; expected cpu");
  refused(refusal_of(std::vector{good, good.t()}),
          "of slot 1 is not contiguous: sizes [3, 2], strides [1, 3]");
  refused(refusal_of(std::vector{good, at::empty({7}, at::kFloat)}),
          "of slot 1: 7 elements of Float; expected 6 of Float");
  refused(refusal_of(std::vector{good, at::empty({6}, at::kHalf)}),
          "of slot 1: 6 elements of Half; expected 6 of Float");
  refused(refusal_of(std::vector<at::Tensor>{}), "no slots, and no `like`");
}

TEST_CASE("autograd knows of tensors that were written") {
  auto const stacked = at::empty({2, 3}, at::kFloat);
  auto const each = std::vector{at::empty({3}, at::kFloat), at::empty({3}, at::kFloat)};
  auto tensors = torch_tensors{};
  tensors.add("stacked", stacked).add("each", each);
  tensors.mark_written();
  tensors.mark_written();
  REQUIRE(stacked._version() == 2);
  REQUIRE(each[1]._version() == 2);
}

TEST_CASE("memory comes from torch's allocators, and goes back") {
  auto counted = counting_allocator{};
  {
    auto memory = fssdp::torch_memory{counted};
    auto buffer = fssdp::expert_buffer<float>{4, sizes, &memory};
    REQUIRE(counting_allocator::blocks == 1);
    REQUIRE(memory.is_equal(fssdp::torch_memory{counted}));
    REQUIRE(!memory.is_equal(fssdp::torch_memory{c10::kCPU}));
    counting_allocator::misplaced_by = 8;
    REQUIRE_THROWS_AS(memory.allocate(64, 64), std::bad_alloc);
    counting_allocator::misplaced_by = 0;
    REQUIRE(counting_allocator::blocks == 1);
  }
  REQUIRE(counting_allocator::blocks == 0);
}

TEST_CASE("experts that are parameters of torch train over c10d, gathered again") {
  auto const wrong = c10d_tests::results_of(3, [](group_maker make) {
    auto memory = fssdp::torch_memory{c10::kCPU};
    auto comm = fssdp::c10d_communicator{make()};
    auto stream = fssdp::host_stream{};
    auto streamed = fssdp::on_stream(comm, stream);
    auto operators = fssdp::c10d_device_communicator{make(), c10::kCPU};
    auto beside = fssdp::on_side_stream(operators, c10::kCPU);
    return train(comm, memory) + train(streamed, memory) + train(beside, memory);
  });
  REQUIRE(wrong == std::vector{0, 0, 0});
}

TEST_CASE("the gather of the README brings parameters of torch to their replicas") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan =
      fssdp::make_plan(layout, fssdp::everywhere{}(std::vector<std::uint64_t>(4, 1), layout));
  auto const gathered = c10d_tests::results_of(2, [&](group_maker make) {
    auto const me = static_cast<float>(make.rank().value());
    auto const w1 = at::full({2, 3}, me, at::kFloat);
    auto const w2 =
        std::vector{at::full({5}, me + 10, at::kFloat), at::full({5}, me + 20, at::kFloat)};
    auto const r1 = at::empty({2, 3}, at::kFloat);
    auto const r2 = at::empty({2, 5}, at::kBFloat16);
    gather(make(), plan, w1, w2, r1, r2);
    return std::vector{r1.data_ptr<float>()[5], static_cast<float>(r2.data_ptr<c10::BFloat16>()[4]),
                       static_cast<float>(r2.data_ptr<c10::BFloat16>()[5])};
  });
  REQUIRE(gathered ==
          std::vector{std::vector{1.0F, 11.0F, 21.0F}, std::vector{0.0F, 10.0F, 20.0F}});
}
