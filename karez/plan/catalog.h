// What the compile half asks about kernels without seeing one: which kernel runs a call, what strides it takes, what
// workspace it needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/plan/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::plan {

// A local op to be run: what `call_of` lowers a node to.
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
  double rate = 1;             // of what the cost table promises; a plain row gives a twentieth
};

class KernelCatalog {
 public:
  virtual ~KernelCatalog() = default;
  // The best kernel for the call as it stands, or none: strides matter.
  virtual std::optional<KernelChoice> find(const CallSpec& call) const = 0;
  // The strides under which the best kernel takes this call, all operands row-major or channels-last otherwise.
  virtual std::optional<CallSpec> suggest(const CallSpec& call) const = 0;
  // For the error of a missing kernel: what there is for this op.
  virtual std::string list(std::string_view op) const = 0;
};

}  // namespace karez::plan
