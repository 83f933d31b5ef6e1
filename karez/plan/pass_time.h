// How a plan was made, for people: how long each pass took, and what it made.
#pragma once

#include <string>

#include "karez/plan/namespace.h"

namespace karez::plan {

struct PassTime {
  std::string name;
  double seconds = 0;
  std::string text;  // what it made, if kept
};

}  // namespace karez::plan
