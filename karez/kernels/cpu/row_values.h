// RowValues: the values of a row program, with the phase in which each is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "karez/base/row_program.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

using base::RowExtent;

// Returns the extent of an operand, or nullopt if its shape and strides are not those of the list above.
std::optional<RowExtent> row_extent(const View& view, std::int64_t rows, std::int64_t columns);

// A reduction needs complete rows, so the blocks of a row run in phases: a statement that reads the result of a
// reduction runs in a later phase than the reduction.
class RowValues {
 public:
  // Returns nullopt if the operands do not fit the program. `computed` is the type of the computation.
  static std::optional<RowValues> of(const CallSpec& call, DType computed);

  const RowProgram& program() const { return program_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  int inputs() const { return program_.inputs; }
  int variables() const { return program_.inputs + static_cast<int>(program_.statements.size()); }
  bool is_input(int v) const { return v < program_.inputs; }
  const RowStatement& statement(int v) const {
    return program_.statements[static_cast<std::size_t>(v - program_.inputs)];
  }
  std::vector<int> reads(int v) const;  // the variables that a statement reads
  bool is_result(int v) const;
  RowExtent extent(int v) const { return extents_[static_cast<std::size_t>(v)]; }
  // Whether blocks of the value have different elements in each column.
  bool is_full(int v) const { return extent(v) == RowExtent::full || extent(v) == RowExtent::per_column; }
  // Whether the statement runs on blocks: it computes a full value or a reduction.
  bool runs_on_blocks(int v) const {
    return extent(v) == RowExtent::full || statement(v).kind != RowStatementKind::each;
  }
  // The first phase whose statements may read the value.
  int available(int v) const { return available_[static_cast<std::size_t>(v)]; }
  // The phase in whose blocks a statement runs, and the last phase in whose blocks its value is read.
  int phase(int v) const { return phase_[static_cast<std::size_t>(v)]; }
  int last_use(int v) const { return last_use_[static_cast<std::size_t>(v)]; }
  int last_phase() const { return last_phase_; }  // the last one with blocks

 private:
  bool find_extents(const CallSpec& call, DType computed);
  void find_phases();

  RowProgram program_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<RowExtent> extents_;
  std::vector<int> available_, phase_, last_use_;
  int last_phase_ = 0;
};

}  // namespace karez::kernels
