// SPDX-License-Identifier: Apache-2.0
#include <nanobind/operators.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "arrays.hpp"
#include "fssdp/placement/load_average.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/placement/loads.hpp"
#include "module.hpp"

namespace python {
namespace {

constexpr auto window_text =
    R"(Predicts loads by the mean of the last ones, rounded up to whole tokens.

Integers throughout, so that all ranks get the same numbers.

Args:
    experts: how many there are.
    length: of the window, in iterations.

Raises:
    ArgumentError: unless there is an expert, and the window is 1 or more.)";

constexpr auto average_text = R"(Predicts loads by their exponential mean.

``alpha`` times the newest loads plus (1 - alpha) times the mean before; the first loads are taken as
they are. It follows loads that change fast sooner than a LoadWindow does. Integers throughout, so
that all ranks get the same numbers.

Args:
    experts: how many there are.
    alpha: the weight of the newest loads as a fraction: (numerator, denominator).

Raises:
    ArgumentError: unless there is an expert and alpha is above 0 and at most 1, with a denominator
        of 65536 or less.)";

/// What all predictors have.
template <class Predictor>
void add_prediction(nb::class_<Predictor>& to, char const* name) {
  using namespace nb::literals;
  to.def(
        "push", [](Predictor& self, array_like const& loads) { self.push(read_loads(loads)); },
        "loads"_a, "Takes in the loads of one iteration: [experts], tokens over all ranks.")
      .def(
          "predict", [](Predictor const& self) { return token_array(self.predict()); },
          "The loads to plan with, in tokens of one iteration: [experts]; zero before the first "
          "push.")
      .def("resize", &Predictor::resize, "experts"_a,
           "From now on there are so many experts; a new one begins with the mean of the others.")
      .def(
          "memory",
          [](Predictor const& self) {
            auto numbers = self.memory();
            auto const shape = std::array{numbers.size()};
            return as_array(std::move(numbers), shape);
          },
          "All that predictions depend on, as numbers, for a checkpoint.")
      .def(
          "recall",
          [](Predictor& self, array_like const& memory) {
            self.recall(read_whole_numbers(memory, "memory", 1).values);
          },
          "memory"_a, "Goes on from a memory.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__",
           [name](Predictor const& self) {
             return fssdp::detail::text(name, "(experts=", self.predict().size(), ")");
           })
      .attr("__hash__") = nb::none();
}

}  // namespace

void add_predictors(nb::module_& to) {
  using namespace nb::literals;
  using fssdp::load_average;
  using fssdp::load_window;
  auto window = nb::class_<load_window>(to, "LoadWindow", window_text)
                    .def(nb::init<int, int>(), "experts"_a, nb::kw_only(), "length"_a = 5);
  add_prediction(window, "LoadWindow");
  auto const alpha = load_average::alpha{};
  auto average = nb::class_<load_average>(to, "LoadAverage", average_text)
                     .def(
                         "__init__",
                         [](load_average* self, int experts, std::pair<int, int> weight) {
                           new (self) load_average{
                               experts, {.numerator = weight.first, .denominator = weight.second}};
                         },
                         "experts"_a, nb::kw_only(),
                         "alpha"_a = std::pair{alpha.numerator, alpha.denominator});
  add_prediction(average, "LoadAverage");
  to.def("max_over_mean",
         [](array_like const& of) { return fssdp::max_over_mean(read_loads(of)); });
}

}  // namespace python
