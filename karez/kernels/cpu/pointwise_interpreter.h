// The interpreter of pointwise expressions: runs an expression on blocks that fit in the L1 cache, in f32 or f64.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "karez/base/expr.h"
#include "karez/kernels/cpu/broadcast_pattern.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_block_op.h"
#include "karez/kernels/cpu/team.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Every thread has separate blocks in the workspace: one for each constant and temporary, one for each input that is
// repeated, bool or converted, and one for a bool result. If rows are short, a block holds several complete rows.
template <class C> class PointwiseInterpreter {
 public:
  static constexpr std::int64_t block = 2048 / sizeof(C);  // so that a dozen registers fit in L1
  static constexpr int max_registers = 64;

  static bool supports(const CallSpec& call) {
    const ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
    return program.variables <= static_cast<int>(call.in.size()) && program.registers <= max_registers &&
           std::none_of(program.ops.begin(), program.ops.end(), [](const ExprOp& op) { return is_bitwise(op.op); });
  }

  PointwiseInterpreter(const CallSpec& call, const BroadcastPattern& pattern)
      : program_(flatten(parse_expr(call.attrs.text("expr")))),
        pattern_(pattern),
        team_(call.team),
        rows_per_block_(std::max<std::int64_t>(block / pattern.columns, 1)) {
    for (int i = 0; i < program_.variables; ++i) {
      const auto uses = std::count_if(program_.ops.begin(), program_.ops.end(),
                                      [i](const ExprOp& op) { return op.a == i || op.b == i || op.c == i; });
      convert_once_.push_back(uses > 1 &&
                              storage_of(pattern.inputs[static_cast<std::size_t>(i)].dtype) != Storage::computed);
    }
  }

  std::int64_t workspace() const { return blocks_per_thread() * padded * static_cast<std::int64_t>(sizeof(C)) * team_; }

  void run(const BlockFunctions<C>& functions, const KernelArgs& args) const {
    if (pattern_.rows == 1) {  // operands are dense or scalar, so any range of elements is a row
      parallel_for(team_, pattern_.columns, grain, [&](std::int64_t from, std::int64_t to, int part) {
        Runner runner(*this, functions, args, part);
        runner.begin(0, pattern_.columns);
        runner.run_columns(from, to);
      });
      return;
    }
    parallel_for(team_, pattern_.rows, std::max<std::int64_t>(grain / pattern_.columns, 1),
                 [&](std::int64_t from, std::int64_t to, int part) {
                   Runner runner(*this, functions, args, part);
                   runner.begin(0, pattern_.rows * pattern_.columns);
                   runner.run_rows(from, to);
                 });
  }

  // Runs the calls of a group, whose pattern is that of each call. Constants, and operands that consecutive calls
  // share, are filled only once. Small calls are one call if their operands are adjacent, otherwise their operands are
  // copied into blocks, since an operation on a block takes about as long as copying a hundred bytes.
  void run_group(const BlockFunctions<C>& functions, const KernelArgs& args, std::int64_t calls) const {
    parallel_for(team_, calls, 1, [&](std::int64_t from, std::int64_t to, int part) {
      Runner runner(*this, functions, args, part);
      const bool copies = pattern_.rows == 1 && pattern_.columns <= block / 2 && pattern_.out != DType::b8 &&
                          adjacent_calls(pattern_, args, from, to) == 1;
      for (std::int64_t call = from; call < to;) {
        const std::int64_t count =
            copies ? runner.calls_with_same_scalars(call, std::min(to - call, block / pattern_.columns))
                   : adjacent_calls(pattern_, args, call, to);
        const std::int64_t elements = pattern_.rows * pattern_.columns * count;
        if (call == from) runner.begin(call, elements);
        else runner.next(call, elements);
        if (copies) runner.run_copied(call, count);
        else if (pattern_.rows == 1) runner.run_columns(0, elements);
        else runner.run_rows(0, pattern_.rows);
        call += count;
      }
    });
  }

 private:
  static constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread
  // A register takes 64 bytes more than a block, so that registers start in different cache sets.
  static constexpr std::int64_t padded = block + 64 / sizeof(C);

  static Storage storage_of(DType dtype) {
    if (dtype == DType::bf16) return Storage::bf16;
    if (dtype == DType::f16) return Storage::f16;
    return dtype == DType::f32 && std::is_same_v<C, double> ? Storage::f32 : Storage::computed;
  }
  std::int64_t blocks_per_thread() const { return static_cast<std::int64_t>(program_.registers) + 1; }

  // Runs the blocks of one thread.
  struct Runner {
    const PointwiseInterpreter& plan;
    const BlockFunctions<C>& functions;
    const KernelArgs& args;
    std::byte* const* in = nullptr;  // the operands of the call
    std::byte* out = nullptr;
    C* scratch;
    std::array<BlockOperand, max_registers> registers;
    std::int64_t filled = 0;  // elements of the blocks that do not change

    Runner(const PointwiseInterpreter& interpreter, const BlockFunctions<C>& block_functions,
           const KernelArgs& arguments, std::int64_t part)
        : plan(interpreter),
          functions(block_functions),
          args(arguments),
          scratch(elements<C>(arguments.workspace) + part * interpreter.blocks_per_thread() * padded) {}

    C* block_of(int r) const { return scratch + r * padded; }

    void copy(const BlockOperand& from, void* to, Storage storage, std::int64_t count) const {
      functions.run({ExprKind::variable, from, {}, {}, to, storage}, count);
    }
    // Converts elements of an operand, from index `at` on.
    void load(const Operand2d& operand, const std::byte* data, std::int64_t at, C* to, std::int64_t count) const {
      const std::byte* from = data + at * size_of(operand.dtype);
      if (operand.dtype == DType::b8)
        return functions.from_bools(reinterpret_cast<const std::uint8_t*>(from), to, count);
      copy({from, storage_of(operand.dtype)}, to, Storage::computed, count);
    }
    C element_at(const Operand2d& operand, const std::byte* data, std::int64_t at) const {
      C out = 0;
      load(operand, data, at, &out, 1);
      return out;
    }

    void fill(C value, C* out, std::int64_t count) const { functions.fill_rows(&value, 1, count, out); }
    // Writes elements of a column, each of them `columns` times.
    void fill_column(const Operand2d& operand, const std::byte* data, std::int64_t row, std::int64_t rows,
                     std::int64_t columns, C* out) const {
      std::array<C, block> values;
      if (operand.row_step == 1) load(operand, data, row, values.data(), rows);
      else
        for (std::int64_t r = 0; r < rows; ++r)
          values[static_cast<std::size_t>(r)] = element_at(operand, data, (row + r) * operand.row_step);
      functions.fill_rows(values.data(), rows, columns, out);
    }

    // Begins a call; calls that are not in a group have number 0. Fills the blocks that do not change in the next
    // `count` elements: constants, and operands as fill_operand does.
    void begin(std::int64_t call, std::int64_t count) {
      in = operands_of(call);
      out = args.out[static_cast<std::size_t>(call)];
      for (int r = 0; r < plan.program_.registers; ++r) registers[static_cast<std::size_t>(r)] = {block_of(r)};
      filled = std::min(block, count);
      for (std::size_t c = 0; c < plan.program_.constants.size(); ++c)
        fill(static_cast<C>(plan.program_.constants[c]), block_of(plan.program_.variables + static_cast<int>(c)),
             filled);
      for (int i = 0; i < plan.program_.variables; ++i) fill_operand(i);
    }
    // Begins another call of a group. Keeps the blocks of operands that it shares with the last one.
    void next(std::int64_t call, std::int64_t count) {
      if (count > filled && filled < block) return begin(call, count);
      std::byte* const* const last = std::exchange(in, operands_of(call));
      out = args.out[static_cast<std::size_t>(call)];
      for (int i = 0; i < plan.program_.variables; ++i)
        if (in[i] != last[i]) fill_operand(i);
    }
    std::byte* const* operands_of(std::int64_t call) const {
      return args.in.data() + static_cast<std::size_t>(call) * plan.pattern_.inputs.size();
    }
    // Fills the block of a scalar, or of a short row, which is repeated to fill the block.
    void fill_operand(int i) {
      const auto& [rows, columns, inputs, type] = plan.pattern_;
      const Operand2d& operand = inputs[static_cast<std::size_t>(i)];
      if (operand.broadcast == Broadcast::scalar) fill(element_at(operand, in[i], 0), block_of(i), filled);
      if (operand.broadcast == Broadcast::row && columns <= block)
        for (std::int64_t row = 0; row < std::min(plan.rows_per_block_, rows); ++row)
          load(operand, in[i], 0, block_of(i) + row * columns, columns);
    }

    // Prepares the register of input i for rows `row` to row + row_count - 1, from `column` on.
    void load_input(int i, std::int64_t row, std::int64_t row_count, std::int64_t column, std::int64_t count) {
      const Operand2d& operand = plan.pattern_.inputs[static_cast<std::size_t>(i)];
      const std::byte* data = in[i];
      const std::int64_t columns = plan.pattern_.columns;
      const bool whole_rows = columns <= block;
      if (operand.broadcast == Broadcast::dense || (operand.broadcast == Broadcast::row && !whole_rows)) {
        const std::int64_t at = operand.broadcast == Broadcast::dense ? row * columns + column : column;
        if (operand.dtype == DType::b8 || plan.convert_once_[static_cast<std::size_t>(i)])
          return load(operand, data, at, block_of(i), count);
        registers[static_cast<std::size_t>(i)] = {data + at * size_of(operand.dtype), storage_of(operand.dtype)};
      } else if (operand.broadcast == Broadcast::column) {
        fill_column(operand, data, row, row_count, whole_rows ? columns : count, block_of(i));
      }
    }

    // Computes rows `row` to row + row_count - 1, from `column` on: `count` elements that are contiguous in the output.
    void block_at(std::int64_t row, std::int64_t row_count, std::int64_t column, std::int64_t count) {
      for (int i = 0; i < plan.program_.variables; ++i) load_input(i, row, row_count, column, count);
      compute(out + (row * plan.pattern_.columns + column) * size_of(plan.pattern_.out), count);
    }

    // Computes `count` elements of the result from the registers of the operands.
    void compute(std::byte* to, std::int64_t count) const {
      const ExprProgram& program = plan.program_;
      const DType dtype = plan.pattern_.out;
      const auto read = [&](int r) { return r < 0 ? BlockOperand() : registers[static_cast<std::size_t>(r)]; };
      bool written = false;
      for (std::size_t n = 0; n < program.ops.size(); ++n) {
        const ExprOp& op = program.ops[n];
        // The last operation computes the result and may write directly to the output.
        written = n + 1 == program.ops.size() && op.dst == program.result && dtype != DType::b8;
        functions.run({op.op, read(op.a), read(op.b), read(op.c), written ? static_cast<void*>(to) : block_of(op.dst),
                       written ? storage_of(dtype) : Storage::computed},
                      count);
      }
      if (written) return;
      BlockOperand from = registers[static_cast<std::size_t>(program.result)];
      if (dtype != DType::b8) return copy(from, to, storage_of(dtype), count);
      if (from.storage != Storage::computed) {
        copy(from, block_of(program.registers), Storage::computed, count);
        from = {block_of(program.registers)};
      }
      functions.to_bools(static_cast<const C*>(from.data), reinterpret_cast<std::uint8_t*>(to), count);
    }

    // The number of calls from `call` on, at most `most`, whose scalars are the same.
    std::int64_t calls_with_same_scalars(std::int64_t call, std::int64_t most) const {
      std::int64_t count = 1;
      for (; count < most; ++count)
        for (int i = 0; i < plan.program_.variables; ++i)
          if (plan.pattern_.inputs[static_cast<std::size_t>(i)].broadcast == Broadcast::scalar &&
              operands_of(call + count)[i] != operands_of(call)[i])
            return count;
      return count;
    }
    // Computes the results of calls of a group from copies of their operands.
    void run_copied(std::int64_t call, std::int64_t count) {
      const auto& [rows, columns, inputs, type] = plan.pattern_;
      const int operands = plan.program_.variables;
      for (int i = 0; i < operands; ++i) {
        const Operand2d& operand = inputs[static_cast<std::size_t>(i)];
        if (operand.broadcast == Broadcast::scalar) continue;
        std::array<std::byte, block> bools;
        const bool is_bool = operand.dtype == DType::b8;
        std::byte* const to = is_bool ? bools.data() : reinterpret_cast<std::byte*>(block_of(i));
        const std::int64_t bytes = columns * size_of(operand.dtype);
        for (std::int64_t k = 0; k < count; ++k)
          std::memcpy(to + k * bytes, operands_of(call + k)[i], static_cast<std::size_t>(bytes));
        if (is_bool) functions.from_bools(reinterpret_cast<const std::uint8_t*>(to), block_of(i), count * columns);
        registers[static_cast<std::size_t>(i)] = {block_of(i), is_bool ? Storage::computed : storage_of(operand.dtype)};
      }
      auto* const results = reinterpret_cast<std::byte*>(block_of(plan.program_.registers));
      compute(results, count * columns);
      const std::int64_t bytes = columns * size_of(type);
      for (std::int64_t k = 0; k < count; ++k)
        std::memcpy(args.out[static_cast<std::size_t>(call + k)], results + k * bytes, static_cast<std::size_t>(bytes));
    }

    // Computes elements of a call with one row.
    void run_columns(std::int64_t from, std::int64_t to) {
      for (std::int64_t at = from; at < to; at += block) block_at(0, 1, at, std::min(block, to - at));
    }

    void run_rows(std::int64_t from, std::int64_t to) {
      const std::int64_t columns = plan.pattern_.columns;
      if (columns <= block) {
        for (std::int64_t row = from; row < to; row += plan.rows_per_block_) {
          const std::int64_t row_count = std::min(plan.rows_per_block_, to - row);
          block_at(row, row_count, 0, row_count * columns);
        }
        return;
      }
      for (std::int64_t row = from; row < to; ++row)
        for (std::int64_t column = 0; column < columns; column += block)
          block_at(row, 1, column, std::min(block, columns - column));
    }
  };

  ExprProgram program_;
  BroadcastPattern pattern_;
  int team_ = 1;
  std::int64_t rows_per_block_ = 1;
  std::vector<bool> convert_once_;  // of each input: it is stored in a narrower type and used more than once
};

}  // namespace karez::kernels
