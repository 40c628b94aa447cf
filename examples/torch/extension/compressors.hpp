// SPDX-License-Identifier: Apache-2.0
/// Compressors of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace python {

/// The class Compressor, and a function for each of them that the library has.
void add_compressors(nanobind::module_& to);

}  // namespace python
