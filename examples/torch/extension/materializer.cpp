// SPDX-License-Identifier: Apache-2.0
#include "fssdp/runtime/materializer.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/memory/torch_memory.hpp"
#include "fssdp/placement/load_window.hpp"
#include "module.hpp"
#include "tensors.hpp"

namespace python {
namespace {

using fssdp::layer_id;
using fssdp::table_layout;
using fssdp::detail::require;
using released = nb::gil_scoped_release;

/// A solver of Python's, for threads that do not hold the interpreter.
class python_solver {
 public:
  explicit python_solver(nb::object solve)
      : solve_{new nb::object{std::move(solve)}, [](nb::object* of) {
                 auto const locked = nb::gil_scoped_acquire{};
                 delete of;
               }} {}

  fssdp::placement operator()(std::span<std::uint64_t const> loads,
                              table_layout const& layout) const {
    auto const locked = nb::gil_scoped_acquire{};
    auto numbers = nb::list{};
    for (auto const load : loads) numbers.append(load);
    return nb::cast<fssdp::placement>((*solve_)(numbers, layout));
  }

 private:
  std::shared_ptr<nb::object> solve_;
};

std::optional<fssdp::dtype> dtype_named(std::optional<std::string> const& name) {
  if (!name.has_value()) return std::nullopt;
  for (auto const type : fssdp::all_dtypes)
    if (fssdp::name_of(type) == *name) return type;
  throw fssdp::argument_error{fssdp::detail::text("dtype '", *name, "' is none")};
}

/// The memory of a storage is somewhere else from now on: tensors that share it see what is there.
void bind(c10::StorageImpl& storage, void* data, std::size_t bytes) {
  storage.set_data_ptr_noswap(at::DataPtr{data, storage.device()});
  storage.set_nbytes(bytes);
}

/// A materializer, what it works with, and how its memory becomes that of tensors.
class layers {
 public:
  layers(communicator& comm, std::vector<table_layout> const& layouts, nb::list const& weights,
         nb::list const& gradients, std::vector<std::size_t> const& elements, nb::object solve,
         int window, std::optional<std::string> const& replica_type,
         std::optional<std::string> const& partial_type, bool rematerialize, bool in_one_piece,
         int prefetch_distance, std::size_t replica_slots, std::size_t partial_slots,
         double seconds_per_row, std::string const& routing, fssdp::topology const* topology,
         bool plan_ahead, double load_tolerance)
      : memory_{comm.device()},
        weights_{tensors_of(weights, comm.device())},
        gradients_{tensors_of(gradients, comm.device())},
        device_{comm.device()},
        in_one_piece_{in_one_piece} {
    auto shards =
        fssdp::expert_shards{fssdp::layer_stack<>{layouts}, elements, weights_, gradients_};
    auto policy = fssdp::materializer_policy{
        .placement = fssdp::any_placement_solver{python_solver{std::move(solve)}},
        .predictor = fssdp::load_window{1, window}};
    auto const options = fssdp::materializer_options{
        .replicas = rematerialize ? fssdp::retention::rematerialize : fssdp::retention::keep,
        .prefetch_distance = prefetch_distance,
        .replica_slots = replica_slots,
        .replica_type = dtype_named(replica_type),
        .partial_type = dtype_named(partial_type),
        .in_one_piece = in_one_piece,
        .partial_slots = partial_slots,
        .memory = &memory_,
        .seconds_per_row = seconds_per_row,
        .routing =
            routing == "balanced" ? fssdp::routing_rule::balanced : fssdp::routing_rule::even,
        .topology = topology == nullptr ? fssdp::topology{} : *topology,
        .load_tolerance = load_tolerance,
        .plan_ahead = plan_ahead};
    comm.with_queue(
        [&](auto& queue) { made_.emplace(queue, std::move(shards), std::move(policy), options); });
  }

  layers(layers const&) = delete;
  layers& operator=(layers const&) = delete;
  ~layers() {
    auto const unlocked = released{};  // a solver in Python takes the GIL when it is destroyed
    made_.reset();
  }

  [[nodiscard]] fssdp::materializer& of() { return *made_; }

  /// Begins to gather a layer.
  /// @return a hash of who will hold what, by which ranks can tell whether they agree; 0 while the
  ///         pool has no room, where that is decided later
  [[nodiscard]] std::uint64_t prefetch(int layer) {
    made_->prefetch(layer_id{layer});
    auto hash = fssdp::detail::hasher{};
    try {
      auto const& where = made_->where(layer_id{layer});
      for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts())) {
        hash.mix(expert.value());
        for (auto const rank : where.holders(expert)) hash.mix(rank.value());
      }
    } catch (fssdp::argument_error const&) {  // there is no placement yet
      return 0;
    }
    return hash.value();
  }
  /// The experts that the rank holds, ascending.
  [[nodiscard]] std::vector<int> held(int layer) const {
    auto experts = std::vector<int>{};
    for (auto const& expert : made_->any_experts(layer_id{layer}))
      experts.push_back(expert.id.value());
    return experts;
  }
  /// The experts become the memory of storages.
  /// @param storages [held * tensors]; [tensors] if they lie in one piece
  void bind_experts(int layer, nb::list const& storages) const {
    auto const experts = made_->any_experts(layer_id{layer});
    auto const rows = in_one_piece_ ? std::min<std::size_t>(experts.size(), 1) : experts.size();
    auto const each = in_one_piece_ ? experts.size() : 1;
    auto const tensors = experts.empty() ? 0 : experts.front().tensors.size();
    require(storages.size() == rows * tensors, "bind_experts: ", storages.size(),
            " storages; expected ", rows * tensors);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t k = 0; k < tensors; ++k) {
        auto const& tensor = experts[row].tensors[k];
        bind(*storage_of(storages[row * tensors + k]), const_cast<void*>(tensor.data),
             each * tensor.elements * fssdp::bytes_of(tensor.type));
      }
  }
  /// The partial gradients likewise: [tensors], each [held, elements].
  void bind_partials(int layer, nb::list const& storages) {
    auto const partials = [&] {
      auto const unlocked = released{};
      return made_->any_partials(layer_id{layer});
    }();
    require(partials.size() == storages.size(), "bind_partials: ", storages.size(),
            " storages; expected ", partials.size());
    for (std::size_t k = 0; k < partials.size(); ++k)
      bind(*storage_of(storages[k]), partials[k].data,
           partials[k].slots * partials[k].elements * fssdp::bytes_of(partials[k].type));
  }

  void reshard(std::vector<table_layout> const& layouts, nb::list const& moved) {
    auto const tensors = tensors_of(moved, device_);
    auto const unlocked = released{};
    made_->reshard(fssdp::layer_stack<>{layouts}, tensors);
  }

 private:
  fssdp::torch_memory memory_;
  fssdp::torch_tensors weights_;
  fssdp::torch_tensors gradients_;
  c10::Device device_;
  bool in_one_piece_;
  std::optional<fssdp::materializer> made_;
};

void add_metrics(nb::module_& to) {
  using fssdp::iteration_metrics;
  nb::class_<iteration_metrics>(
      to, "Metrics", "What one iteration cost. Bytes are of all ranks, seconds of this one.")
      .def_ro("gather_seconds", &iteration_metrics::gather_seconds)
      .def_ro("reduce_seconds", &iteration_metrics::reduce_seconds)
      .def_ro("exposed_seconds", &iteration_metrics::exposed_seconds)
      .def_ro("gathers", &iteration_metrics::gathers)
      .def_ro("gathered_bytes", &iteration_metrics::gathered_bytes)
      .def_ro("reduced_bytes", &iteration_metrics::reduced_bytes)
      .def_ro("bytes_inside_nodes", &iteration_metrics::bytes_inside_nodes)
      .def_ro("bytes_between_nodes", &iteration_metrics::bytes_between_nodes)
      .def_ro("replica_slots_peak", &iteration_metrics::replica_slots_peak)
      .def_ro("partial_slots_peak", &iteration_metrics::partial_slots_peak)
      .def_ro("placements_shrunk", &iteration_metrics::placements_shrunk)
      .def_ro("prefetches_put_off", &iteration_metrics::prefetches_put_off)
      .def_ro("calibrations_accepted", &iteration_metrics::calibrations_accepted)
      .def_ro("calibrations_rejected", &iteration_metrics::calibrations_rejected)
      .def_ro("load_max_over_mean", &iteration_metrics::load_max_over_mean)
      .def_ro("load_p95", &iteration_metrics::load_p95);
}

/// Calls a member of the materializer while other threads of Python run.
template <auto Member, class... Arguments>
auto unlocked(layers& self, int layer, Arguments... arguments) {
  auto const free = released{};
  return (self.of().*Member)(layer_id{layer}, arguments...);
}

}  // namespace

void add_materializer(nb::module_& to) {
  using namespace nb::literals;
  using fssdp::materializer;
  add_metrics(to);
  nb::class_<layers>(to, "Materializer")
      .def(nb::init<communicator&, std::vector<table_layout> const&, nb::list const&,
                    nb::list const&, std::vector<std::size_t> const&, nb::object, int,
                    std::optional<std::string> const&, std::optional<std::string> const&, bool,
                    bool, int, std::size_t, std::size_t, double, std::string const&,
                    fssdp::topology const*, bool, double>(),
           nb::keep_alive<1, 2>(), "comm"_a, "layouts"_a, "weights"_a, "gradients"_a, "elements"_a,
           "solver"_a, "window"_a, "replica_type"_a.none(), "partial_type"_a.none(),
           "rematerialize"_a, "in_one_piece"_a, "prefetch_distance"_a, "replica_slots"_a,
           "partial_slots"_a, "seconds_per_row"_a, "routing"_a, "topology"_a.none(), "plan_ahead"_a,
           "load_tolerance"_a)
      .def("layouts",
           [](layers& self) {
             auto const all = self.of().layouts().by_layer();
             return std::vector<table_layout>{all.begin(), all.end()};
           })
      .def(
          "prefetch",
          [](layers& self, int layer) {
            auto const free = released{};
            return self.prefetch(layer);
          },
          "layer"_a)
      .def(
          "acquire",
          [](layers& self, int layer, int micro_batch, bool backward) {
            auto const free = released{};
            self.of().acquire(
                layer_id{layer}, micro_batch,
                backward ? fssdp::training_pass::backward : fssdp::training_pass::forward);
          },
          "layer"_a, "micro_batch"_a, "backward"_a)
      .def("release", unlocked<&materializer::release, int>, "layer"_a, "micro_batch"_a)
      .def("held", &layers::held, "layer"_a)
      .def("bind_experts", &layers::bind_experts, "layer"_a, "storages"_a)
      .def("bind_partials", &layers::bind_partials, "layer"_a, "storages"_a)
      .def(
          "reduce",
          [](layers& self, int layer) {
            auto const free = released{};
            self.of().reduce(layer_id{layer});
          },
          "layer"_a)
      .def(
          "calibrate",
          [](layers& self, int layer, fssdp::token_counts const& counts) {
            auto const free = released{};
            return self.of().calibrate(layer_id{layer}, counts);
          },
          "layer"_a, "counts"_a)
      .def(
          "where",
          [](layers& self, int layer) -> fssdp::placement {
            return self.of().where(layer_id{layer});
          },
          "layer"_a)
      .def(
          "record",
          [](layers& self, int layer, std::vector<std::uint64_t> const& loads,
             std::vector<std::uint64_t> const& device_loads) {
            self.of().record(layer_id{layer}, loads, device_loads);
          },
          "layer"_a, "loads"_a, "device_loads"_a)
      .def(
          "expected_loads",
          [](layers& self, int layer) { return self.of().expected_loads(layer_id{layer}); },
          "layer"_a)
      .def(
          "load_memory",
          [](layers& self, int layer) { return self.of().predictor(layer_id{layer}).memory(); },
          "layer"_a)
      .def(
          "recall_loads",
          [](layers& self, int layer, std::vector<std::uint64_t> const& memory) {
            self.of().predictor(layer_id{layer}).recall(memory);
          },
          "layer"_a, "memory"_a)
      .def("step",
           [](layers& self) {
             auto const free = released{};
             return self.of().step();
           })
      .def("reshard", &layers::reshard, "layouts"_a, "moved"_a);
  to.def(
      "unbind",
      [](nb::list const& storages) {
        for (auto const& storage : storages) bind(*storage_of(storage), nullptr, 0);
      },
      "storages"_a);
}

}  // namespace python
