// SPDX-License-Identifier: Apache-2.0
/// What plan_ownership is asked on its command line.
#pragma once

#include <string>

namespace ownership {

struct options {
  std::string question = "-";  ///< a file; -: standard input
  bool compact = false;        ///< JSON on one line
};

}  // namespace ownership
