// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "communicator.hpp"
#include "compressors.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/delayed_exchange.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/rate_solver.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/torch_tensors.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "module.hpp"
#include "tensors.hpp"

namespace python {
namespace {

using fssdp::any_compressor;
using fssdp::layer_id;
using fssdp::detail::require;
using released = nb::gil_scoped_release;

/// Floats of the host, as the library takes them: [slots, ...] each.
class float_tensors {
 public:
  float_tensors() = default;
  explicit float_tensors(nb::list const& list) {
    for (auto const& item : list)
      kept_.add(fssdp::detail::text("tensor ", views_.size()), tensor_of(item));
    for (auto const& view : kept_.tensors()) {
      require(view.type == fssdp::dtype::fp32, "tensor ", views_.size(), " of ",
              fssdp::name_of(view.type), "; expected fp32, as what crosses between groups is");
      views_.push_back({static_cast<float*>(view.data), view.slots, view.elements, view.stride});
    }
  }

  [[nodiscard]] std::span<fssdp::expert_tensor<float> const> tensors() const { return views_; }
  void mark_written() const { kept_.mark_written(); }

 private:
  fssdp::torch_tensors kept_;
  std::vector<fssdp::expert_tensor<float>> views_;
};

/// Where an exchange is, and of what.
struct place {
  communicator& between;
  std::vector<fssdp::table_layout> const& layouts;
  int rank;
  std::vector<std::pair<std::size_t, std::size_t>> const& shapes;

  [[nodiscard]] fssdp::communicator_ref counterparts() const {
    return between.group().communicator();
  }
  [[nodiscard]] fssdp::layer_stack<> stack() const { return fssdp::layer_stack<>{layouts}; }
  [[nodiscard]] std::vector<fssdp::unit_shape> unit_shapes() const {
    auto list = std::vector<fssdp::unit_shape>{};
    for (auto const& [rows, columns] : shapes) list.push_back({rows, columns});
    return list;
  }
};

using buffer_list = std::vector<fssdp::expert_buffer<float>*>;

std::vector<std::pair<std::size_t, std::size_t>> sizes_in(buffer_list const& buffers) {
  auto sizes = std::vector<std::pair<std::size_t, std::size_t>>{};
  for (auto* const buffer : buffers)
    for (auto const& tensor : buffer->tensors()) sizes.emplace_back(tensor.slots, tensor.elements);
  return sizes;
}
/// Calls copy(slot of what is remembered, slot of the list) for all of them.
/// @throws fssdp::argument_error if the list has other sizes
template <class Copy>
void for_each_slot(buffer_list const& buffers, float_tensors const& list, Copy copy) {
  auto const sizes = sizes_in(buffers);
  require(list.tensors().size() == sizes.size(), "memory: ", list.tensors().size(),
          " tensors; expected ", sizes.size());
  for (std::size_t k = 0; k < sizes.size(); ++k)
    require(
        list.tensors()[k].slots == sizes[k].first && list.tensors()[k].elements == sizes[k].second,
        "memory: tensor ", k, " is [", list.tensors()[k].slots, ", ", list.tensors()[k].elements,
        "]; expected [", sizes[k].first, ", ", sizes[k].second, "]");
  for (std::size_t k = 0; auto* const buffer : buffers)
    for (auto const& tensor : buffer->tensors()) {
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        copy(tensor[slot], list.tensors()[k][slot]);
      ++k;
    }
}

/// An exchange, and the tensors that it may still be working with: those of each layer.
template <class Exchange>
class tensor_exchange {
 public:
  template <class Options>
  tensor_exchange(place const& at, Options options)
      : between_{at.counterparts()}, lent_(at.layouts.size()) {
    made_.emplace(between_, at.stack(), fssdp::rank_id{at.rank}, at.unit_shapes(),
                  std::move(options));
  }
  tensor_exchange(tensor_exchange const&) = delete;
  tensor_exchange& operator=(tensor_exchange const&) = delete;
  ~tensor_exchange() {
    auto const unlocked = released{};
    made_.reset();
  }

  [[nodiscard]] Exchange& of() { return *made_; }
  [[nodiscard]] float_tensors& lend(int layer, nb::list const& list) {
    require(layer >= 0 && static_cast<std::size_t>(layer) < lent_.size(), "layer ", layer,
            "; expected 0 to ", lent_.size() - 1);
    auto& lent = lent_[static_cast<std::size_t>(layer)];
    lent = float_tensors{list};
    lent.mark_written();
    return lent;
  }
  [[nodiscard]] buffer_list memory() {
    if constexpr (requires { made_->residuals(); })
      return {&made_->kept(), &made_->residuals()};
    else
      return {&made_->kept()};
  }

 private:
  fssdp::communicator_ref between_;
  std::optional<Exchange> made_;
  std::vector<float_tensors> lent_;
};

using gradients = tensor_exchange<fssdp::gradient_exchange>;
using parameters = tensor_exchange<fssdp::parameter_exchange>;
using delayed = tensor_exchange<fssdp::delayed_exchange>;

/// Calls call(exchange, layer, tensors) while other threads of Python run.
template <class Exchange, class Call>
auto with_layer(tensor_exchange<Exchange>& self, int layer, nb::list const& list, Call call) {
  auto const& lent = self.lend(layer, list);
  auto const unlocked = released{};
  return call(self.of(), layer_id{layer}, lent.tensors());
}

/// What is remembered, in and out, and what moves with the owners.
template <class Exchange>
void add_memory(nb::class_<tensor_exchange<Exchange>>& to) {
  using namespace nb::literals;
  using self_type = tensor_exchange<Exchange>;
  to.def("memory_sizes", [](self_type& self) { return sizes_in(self.memory()); });
  to.def(
      "save_memory",
      [](self_type& self, nb::list const& list) {
        for_each_slot(self.memory(), float_tensors{list},
                      [](auto kept, auto saved) { std::ranges::copy(kept, saved.begin()); });
      },
      "tensors"_a);
  to.def(
      "load_memory",
      [](self_type& self, nb::list const& list) {
        for_each_slot(self.memory(), float_tensors{list},
                      [](auto kept, auto saved) { std::ranges::copy(saved, kept.begin()); });
      },
      "tensors"_a);
  to.def(
      "bytes_sent",
      [](self_type& self, int layer) { return self.of().bytes_sent(layer_id{layer}); }, "layer"_a);
  to.def(
      "reshard",
      [](self_type& self, std::vector<fssdp::table_layout> const& layouts) {
        self.of().reshard(fssdp::layer_stack<>{layouts});
      },
      "layouts"_a);
  to.def("advance", [](self_type& self) { self.of().advance(); });
}

fssdp::gradient_memory memory_named(std::string const& name) {
  using fssdp::gradient_memory;
  if (name == "none") return gradient_memory::none;
  if (name == "residual") return gradient_memory::residual;
  if (name == "momentum") return gradient_memory::momentum;
  throw fssdp::argument_error{fssdp::detail::text("gradient_exchange: memory '", name,
                                                  "'; expected 'none', 'residual' or 'momentum'")};
}

void add_gradient_exchange(nb::module_& to) {
  using namespace nb::literals;
  auto of = nb::class_<gradients>(to, "GradientExchange");
  of.def(
      "__init__",
      [](gradients* self, communicator& between, std::vector<fssdp::table_layout> const& layouts,
         int rank, std::vector<std::pair<std::size_t, std::size_t>> const& shapes,
         any_compressor const& compressor, std::vector<any_compressor> alternatives,
         std::string const& memory, double decay, bool sign, std::uint64_t start,
         std::uint64_t seed, fssdp::host_stream* stream) {
        new (self)
            gradients{place{between, layouts, rank, shapes},
                      fssdp::gradient_exchange_options{.compressor = compressor,
                                                       .alternatives = std::move(alternatives),
                                                       .memory = memory_named(memory),
                                                       .decay = decay,
                                                       .sign = sign,
                                                       .start = start,
                                                       .seed = seed,
                                                       .stream = stream}};
      },
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 13>(), "between"_a, "layouts"_a, "rank"_a,
      "shapes"_a, "compressor"_a, "alternatives"_a, "memory"_a, "decay"_a, "sign"_a, "start"_a,
      "seed"_a, "stream"_a.none());
  of.def(
      "average",
      [](gradients& self, int layer, nb::list const& list, double rate,
         std::vector<std::uint64_t> const& loads) {
        with_layer(self, layer, list, [&](auto& exchange, layer_id which, auto tensors) {
          exchange.average(which, tensors, rate, loads);
        });
      },
      "layer"_a, "gradients"_a, "rate"_a, "loads"_a);
  of.def("synchronize", [](gradients& self) {
    auto const unlocked = released{};
    self.of().synchronize();
  });
  of.def(
      "measure", [](gradients& self, bool on) { self.of().measure(on); }, "on"_a);
  of.def(
      "choose_compressors",
      [](gradients& self, communicator& inside, double tolerance, std::size_t buckets) {
        auto const unlocked = released{};
        auto comm = inside.group().communicator();
        self.of().choose_compressors(comm, {.tolerance = tolerance, .buckets = buckets});
      },
      "inside"_a, "tolerance"_a, "buckets"_a);
  of.def(
      "compressor_of",
      [](gradients& self, int layer, std::size_t tensor) {
        return self.of().compressor_of(layer_id{layer}, tensor);
      },
      "layer"_a, "tensor"_a);
  of.def(
      "take_compressor",
      [](gradients& self, int layer, std::size_t tensor, std::size_t index) {
        self.of().take_compressor(layer_id{layer}, tensor, index);
      },
      "layer"_a, "tensor"_a, "index"_a);
  of.def("step", [](gradients& self) { return self.of().step(); });
  of.def(
      "resume", [](gradients& self, std::uint64_t step) { self.of().resume(step); }, "step"_a);
  add_memory(of);
}

void add_parameter_exchange(nb::module_& to) {
  using namespace nb::literals;
  auto of = nb::class_<parameters>(to, "ParameterExchange");
  of.def(
      "__init__",
      [](parameters* self, communicator& between, std::vector<fssdp::table_layout> const& layouts,
         int rank, std::vector<std::pair<std::size_t, std::size_t>> const& shapes,
         any_compressor const& compressor, double rate, double momentum, double mix,
         std::uint64_t seed, fssdp::host_stream* stream) {
        new (self) parameters{place{between, layouts, rank, shapes},
                              fssdp::parameter_exchange_options{.outer = {rate, momentum},
                                                                .compressor = compressor,
                                                                .mix = mix,
                                                                .seed = seed,
                                                                .stream = stream}};
      },
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 11>(), "between"_a, "layouts"_a, "rank"_a,
      "shapes"_a, "compressor"_a, "rate"_a, "momentum"_a, "mix"_a, "seed"_a, "stream"_a.none());
  of.def(
      "begin",
      [](parameters& self, int layer, nb::list const& list) {
        with_layer(self, layer, list, [](auto& exchange, layer_id which, auto tensors) {
          exchange.begin(which, tensors);
        });
      },
      "layer"_a, "weights"_a);
  of.def(
      "start",
      [](parameters& self, int layer, nb::list const& list) {
        with_layer(self, layer, list, [](auto& exchange, layer_id which, auto tensors) {
          exchange.start(which, tensors);
        });
      },
      "layer"_a, "weights"_a);
  of.def(
      "finish",
      [](parameters& self, int layer, nb::list const& list) {
        with_layer(self, layer, list, [](auto& exchange, layer_id which, auto tensors) {
          exchange.finish(which, tensors);
        });
      },
      "layer"_a, "weights"_a);
  of.def(
      "is_under_way",
      [](parameters& self, int layer) { return self.of().is_under_way(layer_id{layer}); },
      "layer"_a);
  of.def("round", [](parameters& self) { return self.of().round(); });
  of.def(
      "resume", [](parameters& self, std::uint64_t round) { self.of().resume(round); }, "round"_a);
  add_memory(of);
}

void add_delayed_exchange(nb::module_& to) {
  using namespace nb::literals;
  auto of = nb::class_<delayed>(to, "DelayedExchange");
  of.def(
      "__init__",
      [](delayed* self, communicator& between, std::vector<fssdp::table_layout> const& layouts,
         int rank, std::vector<std::pair<std::size_t, std::size_t>> const& shapes,
         any_compressor const& compressor, double rate, double momentum, double clip, bool penalty,
         std::uint64_t seed, fssdp::host_stream* stream) {
        new (self) delayed{place{between, layouts, rank, shapes},
                           fssdp::delayed_exchange_options{.rate = rate,
                                                           .momentum = momentum,
                                                           .clip = clip,
                                                           .penalty = penalty,
                                                           .compressor = compressor,
                                                           .seed = seed,
                                                           .stream = stream}};
      },
      nb::keep_alive<1, 2>(), nb::keep_alive<1, 12>(), "between"_a, "layouts"_a, "rank"_a,
      "shapes"_a, "compressor"_a, "rate"_a, "momentum"_a, "clip"_a, "penalty"_a, "seed"_a,
      "stream"_a.none());
  of.def(
      "begin",
      [](delayed& self, int layer, nb::list const& list) {
        with_layer(self, layer, list, [](auto& exchange, layer_id which, auto tensors) {
          exchange.begin(which, tensors);
        });
      },
      "layer"_a, "weights"_a);
  of.def(
      "first_step",
      [](delayed& self, int layer, nb::list const& list) {
        with_layer(self, layer, list, [](auto& exchange, layer_id which, auto tensors) {
          exchange.first_step(which, tensors);
        });
      },
      "layer"_a, "weights"_a);
  of.def("gap_of_rank", [](delayed& self) {
    auto const unlocked = released{};
    auto const gap = self.of().gap_of_rank();
    return std::pair{gap.moved, gap.first_step};
  });
  of.def(
      "synchronize",
      [](delayed& self, int layer, nb::list const& list, double gap) {
        with_layer(self, layer, list, [&](auto& exchange, layer_id which, auto tensors) {
          exchange.synchronize(which, tensors, gap);
        });
      },
      "layer"_a, "weights"_a, "gap"_a);
  of.def("where", [](delayed& self) {
    auto const at = self.of().where();
    return nb::make_tuple(at.round, at.last.moved, at.last.first_step, at.first_step);
  });
  of.def(
      "resume",
      [](delayed& self, std::uint64_t round, double moved, double last_first_step,
         double first_step) {
        self.of().resume({round, {moved, last_first_step}, first_step});
      },
      "round"_a, "moved"_a, "last_first_step"_a, "first_step"_a);
  add_memory(of);
}

void add_schedules(nb::module_& to) {
  using namespace nb::literals;
  to.def(
      "every",
      [](std::uint64_t count, std::uint64_t step, std::uint64_t steps) {
        return fssdp::every{count}({step, steps, 0});
      },
      "count"_a, "step"_a, "steps"_a);
  to.def(
      "quadratic",
      [](double alpha, std::uint64_t least, std::uint64_t warm_up, std::uint64_t step,
         std::uint64_t steps, double learning_rate) {
        return fssdp::quadratic{alpha, least, warm_up}({step, steps, learning_rate});
      },
      "alpha"_a, "least"_a, "warm_up"_a, "step"_a, "steps"_a, "learning_rate"_a);
  to.def(
      "staggered",
      [](int fragments, std::uint64_t period, std::uint64_t delay, std::uint64_t step,
         std::uint64_t steps) {
        auto const turn = fssdp::staggered{fragments, period, delay}(step, steps);
        return std::pair{turn.applied, turn.sent};
      },
      "fragments"_a, "period"_a, "delay"_a, "step"_a, "steps"_a);
  to.def(
      "choose_rates",
      [](std::vector<std::vector<std::uint64_t>> bytes, std::vector<std::vector<double>> errors,
         std::size_t usual, double tolerance, std::size_t buckets) {
        return fssdp::choose_rates({std::move(bytes), std::move(errors), usual},
                                   {.tolerance = tolerance, .buckets = buckets});
      },
      "bytes"_a, "errors"_a, "usual"_a, "tolerance"_a, "buckets"_a);
}

}  // namespace

void add_exchanges(nb::module_& to) {
  using namespace nb::literals;
  add_compressors(to);
  nb::class_<fssdp::host_stream>(to, "HostStream")
      .def(nb::init<>())
      .def(
          "synchronize", [](fssdp::host_stream& self) { self.synchronize(); },
          nb::call_guard<released>());
  add_gradient_exchange(to);
  add_parameter_exchange(to);
  add_delayed_exchange(to);
  add_schedules(to);
  to.def(
      "staleness_gap",
      [](communicator& inside, communicator& between, double moved, double first_step) {
        auto const unlocked = released{};
        auto group = inside.group().communicator();
        auto counterparts = between.group().communicator();
        return fssdp::staleness_gap(group, counterparts, {moved, first_step});
      },
      "inside"_a, "between"_a, "moved"_a, "first_step"_a);
  to.def(
      "sum_counts",
      [](communicator& comm, std::vector<std::uint64_t> const& counts) {
        auto const unlocked = released{};
        auto all = comm.group().communicator();
        return fssdp::all_reduce(all, counts);
      },
      "comm"_a, "counts"_a);
  to.def(
      "require_equal_bits",
      [](communicator& between, nb::list const& list) {
        auto const tensors = float_tensors{list};
        auto const unlocked = released{};
        auto counterparts = between.group().communicator();
        fssdp::require_equal_bits(counterparts, tensors.tensors());
      },
      "between"_a, "tensors"_a);
}

}  // namespace python
