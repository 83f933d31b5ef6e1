// The table of kernels. A kernel is prepared once for the exact views of a call, when a plan is loaded, and then runs
// on addresses only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/kernels/namespace.h"
#include "karez/plan/catalog.h"
#include "karez/tensor/tensor.h"

namespace karez::kernels {

// Addresses of the operands of one run, in the order of the call. Kernels write every element of their outputs and
// allocate nothing.
struct KernelArgs {
  std::span<std::byte* const> in;
  std::span<std::byte* const> out;
  std::byte* workspace = nullptr;  // 64-byte aligned
};
using PreparedKernel = std::function<void(const KernelArgs&)>;

// A kernel: the op that it implements, the calls that it supports, and its rank among the kernels of this op.
struct KernelRow {
  std::string name;  // "plain.matmul", "onednn.matmul", "hwy.pointwise"
  std::string op;    // the op that it implements
  int rank = 0;      // the supported row with the highest rank runs; plain kernels have rank 0
  std::function<bool(const CallSpec&)> supports;
  std::function<std::int64_t(const CallSpec&)> workspace;  // in bytes; none if absent
  std::function<PreparedKernel(const CallSpec&)> prepare;  // may allocate memory; the prepared kernel may not
  double rate = 1;  // speed relative to the cost table's rate for the op; if it is below 1, copies that let a faster
                    // row run may pay off
};

class KernelTable : public KernelCatalog {
 public:
  explicit KernelTable(std::vector<KernelRow> rows);
  std::optional<KernelChoice> find(const CallSpec& call) const override;
  std::optional<CallSpec> suggest(const CallSpec& call) const override;
  std::string list(std::string_view op) const override;
  const KernelRow& row(std::string_view name) const;  // throws for an unknown name, and lists similar names
  const std::vector<KernelRow>& rows() const { return rows_; }

 private:
  std::vector<KernelRow> rows_;
};

std::vector<KernelRow> plain_kernels();  // the reference: every op, for f32, f64 and other types that it supports
std::vector<KernelRow> cpu_kernels();    // the plain and the fast kernels

}  // namespace karez::kernels
