// SPDX-License-Identifier: Apache-2.0
/// The parts of the module fssdp.torch._torch, each in a file of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace python {

void add_communicator(nanobind::module_& to);
void add_materializer(nanobind::module_& to);
void add_exchanges(nanobind::module_& to);

}  // namespace python
