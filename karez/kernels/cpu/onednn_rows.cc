// The kernel rows that run on oneDNN. A row supports a call if oneDNN has a fast implementation for the exact strides
// of the call.
#include <cstdlib>
#include <memory>

#include "karez/kernels/cpu/call_support.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/kernels/cpu/onednn_call.h"

namespace karez::kernels {
namespace {

std::shared_ptr<OneDnnCall> build_plan(OneDnnBuild build, const CallSpec& call, std::string& implementation,
                                       OneDnnUse use) {
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views)
      if (view.strides.size() != view.shape.size() || view.count() == 0) return nullptr;
  if (call.in.empty() || call.out.empty() || call.team < 1) return nullptr;
  const OneDnnTeam scope(call.team);
  auto plan = std::make_shared<OneDnnCall>(call.team, use);
  try {
    if (!build(*plan, call, implementation) || is_reference(implementation.c_str())) return nullptr;
  } catch (const dnnl::error&) {  // no implementation for these formats
    return nullptr;
  }
  return plan;
}

// All ops with a oneDNN row.
constexpr std::pair<const char*, OneDnnBuild> builds[] = {
    {"matmul", onednn_matmul},
    {"conv2d", onednn_conv2d},
    {"conv2d_grad_input", onednn_conv2d_grad_input},
    {"conv2d_grad_weight", onednn_conv2d_grad_weight},
    {"avg_pool", onednn_avg_pool},
    {"avg_pool_grad", onednn_avg_pool_grad},
};

KernelRow row_of(const char* op, OneDnnBuild build) {
  KernelRow row;
  row.name = cat("onednn.", op);
  row.op = op;
  row.rank = 10;
  set_support(row, [build](const CallSpec& call) -> std::optional<std::int64_t> {
    std::string name;
    const auto plan = build_plan(build, call, name, OneDnnUse::describe);
    return plan == nullptr ? std::nullopt : std::optional(plan->workspace());
  });
  row.prepare = [build](const CallSpec& call) -> PreparedKernel {
    std::string name;
    auto plan = build_plan(build, call, name, OneDnnUse::run);
    if (plan == nullptr)
      fail("oneDNN has no fast kernel for ", print(call), name.empty() ? "" : "; its implementation is ", name);
    return [plan = std::move(plan)](const KernelArgs& args) { plan->run(args); };
  };
  return row;
}

}  // namespace

std::vector<KernelRow> onednn_rows() {
  // A plan owns its primitives; oneDNN's cache only serves equal calls of one program. With the default of
  // 1024 entries, the cache would retain unused primitives: 14 MB for earlier batch sizes.
  if (dnnl::get_primitive_cache_capacity() > 256) dnnl::set_primitive_cache_capacity(256);
  std::vector<KernelRow> rows;
  for (const auto& [op, build] : builds) rows.push_back(row_of(op, build));
  return rows;
}

void limit_onednn(std::string_view isa) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return;
  const auto limit = isa == "avx2" ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;  // the lowest limit that oneDNN offers
  require(ErrorKind::device, dnnl::set_max_cpu_isa(limit) == dnnl::status::success, "KAREZ_MAX_CPU_ISA=", isa,
          " has no effect on oneDNN, because this process has already used it: set ONEDNN_MAX_CPU_ISA as well");
}

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return cat(version->major, ".", version->minor, ".", version->patch, " (", version->hash, "), instructions ",
             static_cast<int>(dnnl::get_effective_cpu_isa()));
}

std::string onednn_implementation(const CallSpec& call) {
  std::string name;
  for (const auto& [op, build] : builds)
    if (call.op == op && build_plan(build, call, name, OneDnnUse::describe) == nullptr) return "";
  return name;
}

}  // namespace karez::kernels
