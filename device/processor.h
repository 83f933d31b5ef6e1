// Which processor this is, and which of the instruction sets that kernels are written for it has.
#pragma once

#include <string>
#include <string_view>

#include "base/rooms.h"

namespace karez::device {

struct Processor {
  std::string name;  // "AMD EPYC, family 26 model 2"; "unnamed" where nobody says
  std::string isa;   // "avx512" (x86-64-v4), "avx2" (v3), else "baseline"
  bool operator==(const Processor&) const = default;
};

// `root` stands for "/" (tests give another).
Processor processor(const std::string& root = "");

// The name from the text of /proc/cpuinfo.
std::string processor_name(std::string_view cpuinfo);

}  // namespace karez::device
