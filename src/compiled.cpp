// SPDX-License-Identifier: Apache-2.0
// All bodies of the library that are no templates, once for a whole program, for builds without
// CMake. The target fssdp::compiled compiles the two files that are included here, side by side.
// They are compiled with FSSDP_COMPILED, as are the files that are linked to them.
#include "compiled_collectives.cpp"
#include "compiled_planning.cpp"
