// The time and the result of a pass, for reports on compilation.
#pragma once

#include <string>

#include "karez/plan/namespace.h"

namespace karez::plan {

struct PassTime {
  std::string name;
  double seconds = 0;
  std::string text;  // the printed result, if it is kept
};

}  // namespace karez::plan
