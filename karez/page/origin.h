// Where a call came from, read off the text that the plan keeps for people: "matmul at net.cc:12 (fc1)".
#pragma once

#include <string>
#include <string_view>

#include "karez/page/namespace.h"

namespace karez::page {

struct Origin {
  std::string op;      // "matmul"
  std::string line;    // "net.cc:12"; "" if the text has none
  std::string module;  // "fc1"; of a gradient ("fc1.grad") the module it is the gradient of; "" for what is in none
};
Origin origin_of(std::string_view where);

}  // namespace karez::page
