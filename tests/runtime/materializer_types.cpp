// SPDX-License-Identifier: Apache-2.0
/// What experts are computed with: other types than those of the arenas, all of them contiguous,
/// none of them trained.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/toy_model.hpp"

using fssdp::dtype;
using fssdp::layer_id;
using fssdp::materializer_options;
using fssdp::thread_communicator;
using support::make_layers;
using support::overlap;
using support::toy_model;

namespace {

/// The gradients of a rank after one iteration, in which every partial gradient is `one`.
template <class Partial>
[[nodiscard]] std::vector<std::vector<float>> reduced(materializer_options const& options,
                                                      Partial one) {
  return support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto model = toy_model{{.layers = 1}, comm.rank()};
    auto layers = make_layers(comm, model, options, fssdp::everywhere{});
    auto const all = layer_id{0};
    layers.acquire(all);
    layers.release(all);
    for (auto const& tensor : layers.partials<Partial>(all))
      for (std::size_t slot = 0; slot < tensor.slots; ++slot) std::ranges::fill(tensor[slot], one);
    layers.reduce(all);
    layers.step();
    auto values = std::vector<float>{};
    for (auto const& tensor : model.gradients().tensors())
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        values.insert(values.end(), tensor[slot].begin(), tensor[slot].end());
    return values;
  });
}

/// One element as another type.
void convert(dtype from_type, void const* from, dtype to_type, void* to) {
  if (from_type == to_type) {
    std::memcpy(to, from, bytes_of(to_type));
    return;
  }
  auto const conversion = fssdp::detail::runtime_conversion(from_type, to_type);
  conversion.on_host(conversion, from, to, 1);
}
/// The value of a dtype that is nearest to this.
[[nodiscard]] double rounded_to(dtype type, double value) {
  auto memory = std::array<std::byte, sizeof(double)>{};
  convert(dtype::fp64, &value, type, memory.data());
  convert(type, memory.data(), dtype::fp64, &value);
  return value;
}

/// What a single rank is told when it calls `use(layers)`.
template <class Use>
[[nodiscard]] std::string complaint(materializer_options const& options, Use use) {
  auto text = std::string{};
  fssdp::thread_world{1}.run([&](thread_communicator& comm) {
    auto model = toy_model{{.ranks = 1}, comm.rank()};
    auto layers = make_layers(comm, model, options);
    try {
      use(layers);
    } catch (fssdp::argument_error const& error) {
      text = error.what();
    }
  });
  return text;
}

}  // namespace

TEST_CASE("partial gradients of 16-bit replicas are fp32, unless an option says otherwise") {
  auto const third = 1.0F / 3;
  auto options =
      materializer_options{.replica_slots = 8, .replica_type = dtype::bf16, .partial_slots = 8};
  auto const in_fp32 = reduced(options, third);
  auto const exact = third + third + third + third;
  for (auto const& of_rank : in_fp32)
    REQUIRE(std::ranges::all_of(of_rank, [&](float value) { return value == exact; }));
  options.partial_type = dtype::bf16;
  auto const rounded = static_cast<float>(fssdp::bf16{third});
  auto const in_bf16 = reduced(options, fssdp::bf16{third});
  for (auto const& of_rank : in_bf16)
    REQUIRE(std::ranges::all_of(of_rank, [&](float value) { return value == 4 * rounded; }));
}

TEST_CASE("partial gradients of fp32 replicas travel as fp32, those of fp64 as fp64") {
  auto const options = materializer_options{.replica_slots = 8, .partial_slots = 8};
  REQUIRE(reduced(options, 0.5F)[0][0] == 2);
  auto wide = options;
  wide.replica_type = dtype::fp64;
  REQUIRE(reduced(wide, 0.5)[0][0] == 2);
}

TEST_CASE("views of another type than that of the replicas are refused by name") {
  auto const options =
      materializer_options{.replica_slots = 24, .replica_type = dtype::bf16, .partial_slots = 8};
  auto const first = layer_id{0};
  REQUIRE_THAT(complaint(options,
                         [&](fssdp::materializer& layers) {
                           layers.acquire(first);
                           (void)layers.experts<float>(first);
                         }),
               mentions("experts of type fp32") && mentions("expected bf16"));
  REQUIRE_THAT(complaint(options,
                         [&](fssdp::materializer& layers) {
                           layers.acquire(first);
                           (void)layers.partials<fssdp::bf16>(first);
                         }),
               mentions("partials of type bf16") && mentions("expected fp32"));
  REQUIRE_THAT(
      complaint(
          options,
          [&](fssdp::materializer& layers) {
            layers.acquire(first);
            layers.reduce(first, fssdp::expert_buffer<double>{8, std::vector<std::size_t>{300, 7}});
          }),
      mentions("reduced as fp64") && mentions("expected fp32"));
  REQUIRE_THAT(complaint(options,
                         [&](fssdp::materializer& layers) {
                           layers.prefetch(first);
                           (void)layers.experts<fssdp::bf16>(first);
                         }),
               mentions("layer 0 is not acquired") && mentions("expected acquire"));
  REQUIRE_THAT(complaint(options,
                         [&](fssdp::materializer& layers) {
                           layers.acquire(first);
                           (void)layers.experts_in_one_piece<fssdp::bf16>(first);
                         }),
               mentions("expected the option in_one_piece"));
}

TEST_CASE("experts in one piece lie one after the other and train to the same bits") {
  for (auto const how : {overlap::off, overlap::on})
    for (int slices : {1, 4}) {
      auto const trained = [&](bool in_one_piece) {
        return support::on_all_ranks(4, [&](thread_communicator& comm) {
          auto model = toy_model{{.slices = slices}, comm.rank()};
          auto wrong = 0;
          support::run_on_stream(comm, how, [&](auto& streamed) {
            fssdp::materializer layers = make_layers(streamed, model,
                                                     {.replicas = fssdp::retention::rematerialize,
                                                      .replica_slots = 24,
                                                      .in_one_piece = in_one_piece,
                                                      .partial_slots = 24});
            for (int i = 0; i < 4; ++i) {
              if (in_one_piece) {
                auto const l = layer_id{i % 3};
                layers.acquire(l);
                auto const experts = layers.experts<float>(l);
                auto const tensors = layers.experts_in_one_piece<float>(l);
                for (std::size_t k = 0; k < tensors.size(); ++k) {
                  wrong += tensors[k].slots == experts.size() ? 0 : 1;
                  wrong += tensors[k].stride == tensors[k].elements ? 0 : 1;
                  for (std::size_t e = 0; e < experts.size(); ++e)
                    wrong += experts[e].tensors[k].data() == tensors[k][e].data() ? 0 : 1;
                }
                layers.release(l);
              }
              train_once(model, layers, i);
            }
          });
          return std::pair{wrong, model.parameters()};
        });
      };
      auto const together = trained(true);
      auto const apart = trained(false);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        CAPTURE(how == overlap::on, slices, rank);
        REQUIRE(together[rank].first == 0);
        REQUIRE(together[rank].second == apart[rank].second);
      }
    }
}

TEST_CASE("frozen experts are gathered and never reduced") {
  auto const gathers = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto model = toy_model{{}, comm.rank()};
    auto const before = model.parameters();
    auto layers = make_layers(comm, model, {.replica_slots = 24}, fssdp::everywhere{});
    auto counted = 0;
    for (int i = 0; i < 3; ++i) {
      for (auto const l : fssdp::first_n<layer_id>(3)) {
        layers.acquire(l);
        layers.release(l);
      }
      auto const metrics = layers.step();
      counted += static_cast<int>(metrics.gathers) + static_cast<int>(metrics.reduced_bytes);
    }
    return model.parameters() == before ? counted : -1;
  });
  REQUIRE(gathers == std::vector(4, 9));
}

TEST_CASE("a rank without tokens reduces zeros") {
  auto const gradients = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto model = toy_model{{.layers = 1}, comm.rank()};
    auto layers =
        make_layers(comm, model, {.replica_slots = 8, .partial_slots = 8}, fssdp::everywhere{});
    auto const all = layer_id{0};
    layers.acquire(all);
    layers.release(all);
    if (comm.rank() == fssdp::rank_id{2})
      for (auto const& tensor : layers.partials<float>(all))
        for (std::size_t slot = 0; slot < tensor.slots; ++slot)
          std::ranges::fill(tensor[slot], 3.0F);
    layers.reduce(all);
    layers.step();
    return model.gradients().tensors()[0][0][0];
  });
  REQUIRE(gradients == std::vector(4, 3.0F));
}

TEST_CASE("a layout whose slots do not ascend is refused by name") {
  struct backwards : fssdp::block_layout {
    using fssdp::block_layout::block_layout;
    [[nodiscard]] int slot(fssdp::chunk_id chunk) const {
      return 1 - fssdp::block_layout::slot(chunk);
    }
  };
  auto const stack = fssdp::layer_stack{std::vector{backwards{{.experts = 4, .ranks = 2}}}};
  auto memory = fssdp::expert_buffer<float>{2, std::vector<std::size_t>{3}};
  REQUIRE_THROWS_WITH((fssdp::expert_shards{stack, std::array<std::size_t, 1>{3}, memory, memory}),
                      mentions("expert 0 is in slot 1") && mentions("expected 0"));
}

TEST_CASE("layouts of any type become tables") {
  auto const stack =
      fssdp::layer_stack{std::vector{fssdp::cyclic_layout{{.experts = 4, .ranks = 2}}}};
  auto memory = fssdp::expert_buffer<float>{2, std::vector<std::size_t>{3}};
  auto const shards = fssdp::expert_shards{stack, std::array<std::size_t, 1>{3}, memory, memory};
  for (auto const chunk : fssdp::all_chunks(stack))
    REQUIRE(shards.layouts().owner(chunk) == stack.owner(chunk));
}

TEST_CASE("tensors of an expert may have types of their own, known at run time") {
  // fp32 beside bf16: gathered as they are; partial gradients of both are fp32
  auto const wrong = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto const layouts = fssdp::layer_stack{
        std::vector{fssdp::as_table(fssdp::block_layout{{.experts = 4, .ranks = 2}})}};
    auto const elements = std::array<std::size_t, 2>{5, 3};
    auto wide = std::vector<float>(2 * 5, static_cast<float>(comm.rank().value() + 1));
    auto narrow = std::vector<fssdp::bf16>(2 * 3, fssdp::bf16{0.5F});
    auto wide_gradients = std::vector<float>(2 * 5);
    auto narrow_gradients = std::vector<fssdp::bf16>(2 * 3);
    auto const arena = [](auto& first, auto& second) {
      return std::array{fssdp::any_tensor{fssdp::dtype::fp32, first.data(), 2, 5},
                        fssdp::any_tensor{fssdp::dtype::bf16, second.data(), 2, 3}};
    };
    auto layers = fssdp::materializer{comm,
                                      fssdp::expert_shards{layouts, elements, arena(wide, narrow),
                                                           arena(wide_gradients, narrow_gradients)},
                                      {.placement = fssdp::everywhere{}},
                                      {.replica_slots = 2, .partial_slots = 4}};
    auto const all = layer_id{0};
    auto errors = 0;
    layers.acquire(all);
    for (auto const& expert : layers.any_experts(all)) {
      auto const owner = expert.id.value() / 2;
      errors += expert.tensors.size() == 2 ? 0 : 1;
      errors += expert.tensors[0].type == fssdp::dtype::fp32 ? 0 : 1;
      errors += expert.tensors[1].type == fssdp::dtype::bf16 ? 0 : 1;
      auto const* const first = static_cast<float const*>(expert.tensors[0].data);
      auto const* const second = static_cast<fssdp::bf16 const*>(expert.tensors[1].data);
      errors += first[4] == static_cast<float>(owner + 1) ? 0 : 1;
      errors += static_cast<float>(second[2]) == 0.5F ? 0 : 1;
    }
    for (auto const& tensor : layers.any_partials(all)) {
      errors += tensor.type == fssdp::dtype::fp32 ? 0 : 1;
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        std::fill_n(static_cast<float*>(tensor.data) + slot * tensor.stride, tensor.elements, 1.5F);
    }
    layers.release(all);
    layers.reduce(all);
    layers.step();
    errors += wide_gradients == std::vector<float>(10, 3) ? 0 : 1;
    for (auto const value : narrow_gradients) errors += static_cast<float>(value) == 3 ? 0 : 1;
    return errors;
  });
  REQUIRE(wrong == std::vector(2, 0));
}

TEST_CASE("experts of two sizes in a layer have a materializer and a communicator for each size") {
  auto const wrong = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto small = toy_model{{.layers = 2, .elements = {20, 3}}, comm.rank()};
    auto large = toy_model{{.layers = 2, .experts = 4, .elements = {500, 9}}, comm.rank()};
    auto other = comm.duplicate();
    auto const options = materializer_options{.replica_slots = 12, .partial_slots = 12};
    auto first = make_layers(comm, small, options, fssdp::everywhere{});
    auto second = make_layers(other, large, options, fssdp::everywhere{});
    auto errors = 0;
    for (auto const l : fssdp::first_n<layer_id>(2)) {
      first.prefetch(l);  // both are under way before either is used
      second.prefetch(l);
      first.acquire(l);
      second.acquire(l);
      errors += first.experts<float>(l)[7].tensors[0].size() == 20 ? 0 : 1;
      errors += second.experts<float>(l)[3].tensors[0].size() == 500 ? 0 : 1;
      small.backward(first.experts<float>(l), first.partials<float>(l), 0);
      large.backward(second.experts<float>(l), second.partials<float>(l), 0);
      first.release(l);
      second.release(l);
      first.reduce(l);
      second.reduce(l);
    }
    first.step();
    second.step();
    for (auto* model : {&small, &large}) {  // every rank has added (rank + 1) times its expert
      auto const& weight = model->weights().tensors()[0];
      auto const& gradient = model->gradients().tensors()[0];
      for (std::size_t slot = 0; slot < weight.slots; ++slot)
        errors += gradient[slot][1] == 10 * weight[slot][1] ? 0 : 1;
    }
    return errors;
  });
  REQUIRE(wrong == std::vector(4, 0));
}

TEST_CASE("partial gradients of any type are summed and rounded once, to gradients of any type") {
  // the sum is a bf16; but 1 + 1 / 256 alone, in bf16, is 1
  auto const values = std::array{1.0, 1.0 / 256, 1.0 / 256};
  for (auto const partial : fssdp::all_dtypes)
    for (auto const gradient : fssdp::all_dtypes) {
      CAPTURE(name_of(partial), name_of(gradient));
      auto const found = support::on_all_ranks(3, [&](thread_communicator& comm) {
        auto const layouts = fssdp::layer_stack{
            std::vector{fssdp::as_table(fssdp::block_layout{{.experts = 3, .ranks = 3}})}};
        auto const elements = std::array<std::size_t, 1>{5};
        auto weights = std::vector<fssdp::bf16>(5);
        auto memory = std::vector<double>(5);  // enough for any type
        auto const any = fssdp::any_tensor{gradient, memory.data(), 1, 5};
        auto layers = fssdp::materializer{
            comm,
            fssdp::expert_shards{layouts, elements,
                                 fssdp::expert_tensor<fssdp::bf16>{weights.data(), 1, 5}, any},
            {.placement = fssdp::everywhere{}},
            {.replica_slots = 2, .partial_type = partial, .partial_slots = 3}};
        auto const all = layer_id{0};
        layers.acquire(all);
        for (auto const& tensor : layers.any_partials(all))
          for (std::size_t i = 0; i < tensor.slots * tensor.stride; ++i)
            convert(dtype::fp64, &values[comm.rank().index()], partial,
                    static_cast<std::byte*>(tensor.data) + i * bytes_of(partial));
        layers.release(all);
        layers.reduce(all);
        layers.step();
        auto sum = 0.0;
        auto const* const last =
            reinterpret_cast<std::byte const*>(memory.data()) + 4 * bytes_of(gradient);
        convert(gradient, last, dtype::fp64, &sum);
        return sum;
      });
      // what each partial is in its type, summed exactly, and rounded to the type of the gradients
      auto exact = 0.0;
      for (auto const value : values) exact += rounded_to(partial, value);
      REQUIRE(found == std::vector(3, rounded_to(gradient, exact)));
    }
}
