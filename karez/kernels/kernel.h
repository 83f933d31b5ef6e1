// A kernel, prepared once for a call's exact views when a plan is loaded and then run on addresses only, and the table
// of all kernels.
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

// Addresses of one run, in the call's order. Kernels write every element of their outputs and allocate nothing.
struct KernelArgs {
  std::span<std::byte* const> in;
  std::span<std::byte* const> out;
  std::byte* workspace = nullptr;  // 64-byte aligned
};
using PreparedKernel = std::function<void(const KernelArgs&)>;

// One row: the calls that it runs, and how well.
struct KernelRow {
  std::string name;  // "plain.matmul", "onednn.matmul", "hwy.pointwise"
  std::string op;    // op it implements
  int rank = 0;      // larger is better; plain kernels are 0
  std::function<bool(const CallSpec&)> supports;
  std::function<std::int64_t(const CallSpec&)> workspace;  // absent: none
  std::function<PreparedKernel(const CallSpec&)> prepare;  // may allocate; the prepared kernel may not
  double rate =
      1;  // relative to the cost table's rate for its op; below one, copies that let another row run may pay off
};

class KernelTable : public KernelCatalog {
 public:
  explicit KernelTable(std::vector<KernelRow> rows);
  std::optional<KernelChoice> find(const CallSpec& call) const override;
  std::optional<CallSpec> suggest(const CallSpec& call) const override;
  std::string list(std::string_view op) const override;
  const KernelRow& row(std::string_view name) const;  // unknown: an error that lists similar names
  const std::vector<KernelRow>& rows() const { return rows_; }

 private:
  std::vector<KernelRow> rows_;
};

std::vector<KernelRow> plain_kernels();  // every op, for f32 and f64 (and other types it supports): the reference
std::vector<KernelRow> cpu_kernels();    // plain and fast ones

}  // namespace karez::kernels
