// The compiler's interface to kernels: which kernel runs a call, with which strides and how much workspace.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/plan/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::plan {

// A local op to run; `call_of` lowers a node to a CallSpec.
struct CallSpec {
  CallSpec();
  CallSpec(const CallSpec&);
  CallSpec(CallSpec&&) noexcept;
  CallSpec& operator=(const CallSpec&);
  CallSpec& operator=(CallSpec&&) noexcept;
  ~CallSpec();

  std::string op;
  Attrs attrs;
  std::vector<View> in, out;
  std::string device = "cpu";
  int team = 1;
};
std::string print(const CallSpec& call);  // "matmul(f32[8, 4], f32[4, 6]) {..} -> f32[8, 6]"

struct KernelChoice {
  std::string kernel;          // "onednn.matmul"
  std::int64_t workspace = 0;  // bytes
  double rate = 1;             // relative to the speed in the cost table; 1/20 for a plain kernel
};

class KernelCatalog {
 public:
  virtual ~KernelCatalog() = default;
  // Returns the preferred kernel for the call with its strides, or nullopt if no kernel supports it.
  virtual std::optional<KernelChoice> find(const CallSpec& call) const = 0;
  // Returns the call with the strides (given, channels-last or row-major) that allow the preferred kernel.
  virtual std::optional<CallSpec> suggest(const CallSpec& call) const = 0;
  // Lists the kernels of the op, for the error message about a missing kernel.
  virtual std::string list(std::string_view op) const = 0;
};

}  // namespace karez::plan
