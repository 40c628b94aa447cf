// SPDX-License-Identifier: Apache-2.0
/// The interface between tests and the double.
#include <map>
#include <mutex>

#include "gpu_double/gpu_double.hpp"

namespace gpu_double {
namespace {

std::mutex control_mutex;
settings as_told;
std::vector<std::string> reported;
std::map<int, int> errors;

}  // namespace

void reset(settings const& as) {
  auto const lock = std::scoped_lock{control_mutex};
  as_told = as;
  reported.clear();
  errors.clear();
  close_peers();
  unload_kernels();
}
settings const& current() { return as_told; }

std::vector<std::string> violations() {
  auto const lock = std::scoped_lock{control_mutex};
  return reported;
}
void report(std::string const& violation) {
  auto const lock = std::scoped_lock{control_mutex};
  reported.push_back(violation);
}

void inject_error(int rank, int error) {
  auto const lock = std::scoped_lock{control_mutex};
  errors[rank] = error;
}
int injected_error(int rank) {
  auto const lock = std::scoped_lock{control_mutex};
  auto const found = errors.find(rank);
  return found == errors.end() ? 0 : found->second;
}

}  // namespace gpu_double
