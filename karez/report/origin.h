// The origin of a call, parsed from the text that a plan stores for display: "matmul at net.cc:12 (fc1)".
#pragma once

#include <string>
#include <string_view>

#include "karez/report/namespace.h"

namespace karez::report {

struct Origin {
  std::string op;      // "matmul"
  std::string line;    // "net.cc:12"; "" if the text has none
  std::string module;  // "fc1", also for the gradient "fc1.grad"; "" if there is none
};
Origin origin_of(std::string_view where);

}  // namespace karez::report
