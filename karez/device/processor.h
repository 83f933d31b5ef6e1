// Which processor this is, and which of the instruction sets that kernels are written for it has.
#pragma once

#include <string>
#include <string_view>

#include "karez/device/namespace.h"

namespace karez::device {

struct Processor {
  std::string name;  // "AMD EPYC, family 26 model 2"; "unnamed" where nobody says
  std::string isa;   // "avx512" (x86-64-v4), "avx2" (v3), else "baseline"; at most instruction_limit()
  bool operator==(const Processor&) const = default;
};

// `root` stands for "/" (tests give another).
Processor processor(const std::string& root = "");

// KAREZ_MAX_CPU_ISA: the largest instruction set that kernels may use, one of the names of Processor::isa; "avx512"
// where it is not set, which limits nothing. Another word is an error.
std::string instruction_limit();

// The name from the text of /proc/cpuinfo.
std::string processor_name(std::string_view cpuinfo);

}  // namespace karez::device
