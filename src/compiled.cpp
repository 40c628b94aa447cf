// SPDX-License-Identifier: Apache-2.0
// The bodies of all functions that are no templates, compiled once for a whole program. Define
// FSSDP_COMPILED for this file and for all files that are linked with it. The target
// fssdp::compiled compiles its three parts at the same time.
#include "compiled_beside_training.cpp"
#include "compiled_collectives.cpp"
#include "compiled_planning.cpp"
