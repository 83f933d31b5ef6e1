// The name of the processor, its largest instruction set among those for which kernels are compiled, and the number of
// CPUs of the machine.
#pragma once

#include <string>
#include <string_view>

#include "karez/device/namespace.h"

namespace karez::device {

struct Processor {
  std::string name;  // "AMD EPYC, family 26 model 2"; "unnamed" if unknown
  std::string isa;   // "avx512" (x86-64-v4), "avx2" (v3), otherwise "baseline"; at most instruction_limit()
  int cpus = 0;      // CPUs of the machine that are online; a process may be allowed to use fewer of them
  bool operator==(const Processor&) const = default;
};

// Returns the processor on which the program runs. `root` replaces "/" in tests.
Processor processor(const std::string& root = "");

// Returns KAREZ_MAX_CPU_ISA, the largest instruction set that kernels may use: one of the names of Processor::isa. The
// default is "avx512", which means no limit. Throws for any other name.
std::string instruction_limit();

// Returns the name of the processor from the text of /proc/cpuinfo.
std::string processor_name(std::string_view cpuinfo);

}  // namespace karez::device
