// SPDX-License-Identifier: Apache-2.0
/// The parts of the module fssdp._core, each in a file of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace python {

/// The library's exceptions become those of fssdp.errors.
void translate_errors();

void add_topology(nanobind::module_& to);
void add_layout(nanobind::module_& to);
void add_placement(nanobind::module_& to);
void add_predictors(nanobind::module_& to);
void add_physical_experts(nanobind::module_& to);
void add_solvers(nanobind::module_& to);
void add_sharding(nanobind::module_& to);
void add_costs(nanobind::module_& to);
void add_plans(nanobind::module_& to);
void add_tokens(nanobind::module_& to);
void add_advice(nanobind::module_& to);

}  // namespace python
