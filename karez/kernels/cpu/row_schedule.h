// RowSchedule: the order in which a row program runs on tiles of a matrix, and the buffers of its values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "karez/kernels/cpu/row_values.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Where the elements of a value are: in the memory of an operand, or in the scratch memory of the thread.
struct RowSlot {
  int input = -1;             // of an operand
  std::int64_t row_step = 0;  // of an operand: elements between rows
  bool advances = false;      // whether the slot holds a complete row, of which a block is a part
  std::int64_t offset = 0;    // in scratch, in elements
  bool fills_block = false;   // of a constant or a scalar: steps on blocks read it, not only those on values per row
};

enum class RowStepKind : std::uint8_t {
  apply,    // dst = op(a, b, c)
  pair,     // dst = second(op(a, b), c), or second(c, op(a, b)) if `is_swapped`; second may be exp, without c
  load,     // dst = elements of operand number a, converted to the type of the computation
  fill,     // dst = each value of a, repeated along its row
  reduce,   // dst = the reduction of each row of a, or of the products of a and b if there is b
  one_hot,  // dst = 1 in the column whose number operand number a gives for the row, 0 elsewhere
  store,    // result dst = a, converted
};
struct RowStep {
  RowStepKind kind = RowStepKind::apply;
  ExprKind op = ExprKind::variable, second = ExprKind::variable;
  bool is_swapped = false;
  RowStatementKind reduction = RowStatementKind::sum;
  int a = -1, b = -1, c = -1;
  int dst = -1;            // a slot, or the number of the result
  bool to_result = false;  // an `apply` or a `pair` that writes directly to the result `dst`
};

// The blocks of a phase read values that need complete rows of earlier phases.
struct RowPhase {
  std::vector<RowStep> per_row;  // on the values of the rows of a tile, before the blocks
  std::vector<RowStep> blocks;   // on each block
  std::vector<int> reductions;   // the slots that reductions of the blocks write
};

// A tile is several complete rows, or one long row that is divided into blocks. Each phase runs all blocks of a tile.
// Results of full size are written in the last phase that has blocks, after the block's other steps: a result may have
// the memory of a full operand.
struct RowSchedule {
  std::int64_t rows = 0, columns = 0;
  std::int64_t tile_rows = 1;  // more than one only if a row is one block
  std::int64_t block = 0;      // elements of a block
  std::vector<RowSlot> slots;
  std::vector<std::pair<int, double>> constants;  // slots that are filled once
  std::vector<RowStep> begin;                     // fills slots that are the same in each tile
  std::vector<RowPhase> phases;
  std::vector<RowStep> end;       // stores results that have one value per row
  std::vector<RowExtent> inputs;  // of each operand
  std::int64_t scratch = 0;       // elements of each thread
  std::vector<int> indices;       // the operands of one_hot, whose rows select columns
  std::int64_t first_column = 0;  // the index that selects the first column

  bool is_one_block() const { return columns <= block; }
};

// Returns nullopt if the operands do not fit the program, or if the values need too many slots. `computed` is the type
// of the computation.
std::optional<RowSchedule> row_schedule(const CallSpec& call, DType computed);

}  // namespace karez::kernels
