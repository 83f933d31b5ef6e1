// Reads the processor's name from /proc/cpuinfo and its instruction sets from the processor itself.
#include "karez/device/processor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::device {
namespace {

// Returns the value after "name :" in the first line with this name, or "".
std::string value_in(std::string_view text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == name)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string best_instruction_set() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "baseline";
}

constexpr std::string_view instruction_sets[] = {"baseline", "avx2", "avx512"};  // each set includes the previous ones

}  // namespace

std::string instruction_limit() {
  const char* value = std::getenv("KAREZ_MAX_CPU_ISA");
  const std::string_view limit = value == nullptr || *value == 0 ? "avx512" : value;
  require(ErrorKind::name,
          std::find(std::begin(instruction_sets), std::end(instruction_sets), limit) != std::end(instruction_sets),
          "KAREZ_MAX_CPU_ISA must be baseline, avx2 or avx512, got '", limit, "'");
  return std::string(limit);
}

std::string processor_name(std::string_view cpuinfo) {
  const std::string name = value_in(cpuinfo, "model name"), family = value_in(cpuinfo, "cpu family"),
                    model = value_in(cpuinfo, "model");
  if (name.empty()) return "unnamed";
  return family.empty() || model.empty() ? name : cat(name, ", family ", family, " model ", model);
}

Processor processor(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  const std::string best = best_instruction_set(), limit = instruction_limit();
  const auto rank = [](std::string_view isa) {
    return std::find(std::begin(instruction_sets), std::end(instruction_sets), isa);
  };
  return {processor_name(std::string(std::istreambuf_iterator<char>(in), {})), rank(limit) < rank(best) ? limit : best,
          static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))};
}

}  // namespace karez::device
