// Read from /proc/cpuinfo and the processor itself.
#include "device/processor.h"

#include <fstream>
#include <iterator>

#include "base/text.h"

namespace karez::device {
namespace {

// The value behind "name :" on the first such line.
std::string value_in(std::string_view text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == name)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string instructions() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "baseline";
}

}  // namespace

std::string processor_name(std::string_view cpuinfo) {
  const std::string name = value_in(cpuinfo, "model name"), family = value_in(cpuinfo, "cpu family"), model = value_in(cpuinfo, "model");
  if (name.empty()) return "unnamed";
  return family.empty() || model.empty() ? name : cat(name, ", family ", family, " model ", model);
}

Processor processor(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  return {processor_name(std::string(std::istreambuf_iterator<char>(in), {})), instructions()};
}

}  // namespace karez::device
