// Reads the versions of libraries, at run time if possible.
#include "karez/kernels/cpu/library_versions.h"

#include "karez/device/highway_targets.h"

#include <gnu/libc-version.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <Eigen/Core>

#include "karez/base/text.h"
#include "karez/device/processor.h"

namespace karez::kernels {
namespace {

// Returns the newest instruction set that the processor supports and for which the kernels are compiled; calls use this
// one. Highway's numbers are higher for older instruction sets.
std::string highway_target() {
  const std::int64_t available = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(available & -available);
}

void limit_libraries() {
  const std::string limit = device::instruction_limit();
  if (limit == "avx512") return;
#if HWY_ARCH_X86
  constexpr std::int64_t above_avx2 = HWY_AVX2 - 1,
                         above_baseline = 2 * HWY_AVX2 - 1;  // newer targets have smaller bits
  hwy::DisableTargets(limit == "avx2" ? above_avx2 : above_baseline);
#endif
  limit_onednn(limit);
}

}  // namespace

void limit_instructions() {
  static const bool limited = [] {
    limit_libraries();
    return true;
  }();
  static_cast<void>(limited);
}

std::string library_versions() {
  limit_instructions();
  return cat("Karez = ", KAREZ_VERSION, "\ncompiler = ", __VERSION__, "\nC library = ", gnu_get_libc_version(),
             "\noneDNN = ", onednn_version(), "\nHighway = ", HWY_MAJOR, ".", HWY_MINOR, ", ", highway_target(),
             "\nEigen = ", EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION, "\n");
}

}  // namespace karez::kernels
