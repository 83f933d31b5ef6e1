// The interpreter of row programs: runs the phases of a schedule on tiles that fit in the L1 cache, in f32 or f64.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_block_op.h"
#include "karez/kernels/cpu/reduce_kind.h"
#include "karez/kernels/cpu/row_schedule.h"
#include "karez/kernels/cpu/team.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// The functions of one instruction set on rows of C, which is float or double.
template <class C> struct RowFunctions {
  BlockFunctions<C> blocks;
  // Reduces each of `rows` contiguous rows of x, or the sums of the products of x and y if y is not null.
  void (*reduce_rows)(ReduceKind kind, const C* x, const C* y, std::int64_t rows, std::int64_t columns, C* out);
  // Reduces a row in parts: joins the next part to the state, which has the size of a vector, and then finishes.
  void (*join_part)(ReduceKind kind, const C* x, const C* y, std::int64_t count, bool is_first, C* state);
  C (*finish)(ReduceKind kind, const C* state);
  // Computes two operations on elements, see RowStepKind::pair.
  void (*run_pair)(const RowStep& step, const C* a, const C* b, const C* c, C* to, std::int64_t count);
};

// Each row is computed by one thread, in an order that depends only on its length, so the bits of a result do not
// depend on the size of the team.
template <class C> class RowInterpreter {
 public:
  RowInterpreter(const CallSpec& call, RowSchedule schedule) : plan_(std::move(schedule)) {
    const std::int64_t rows_of_part = std::max<std::int64_t>(grain / plan_.columns, 1);
    parts_ = static_cast<int>(std::clamp<std::int64_t>(plan_.rows / rows_of_part, 1, call.team));
    for (const View& view : call.in) in_.push_back(view.dtype);
    for (const View& view : call.out) out_.push_back(view.dtype);
    for (const RowPhase& phase : plan_.phases) states_ = std::max(states_, phase.reductions.size());
  }

  std::int64_t workspace() const { return per_thread() * static_cast<std::int64_t>(sizeof(C)) * parts_; }

  void run(const RowFunctions<C>& functions, const KernelArgs& args) const {
    C* scratch = elements<C>(args.workspace);
    parallel_for(parts_, plan_.rows, 1, [&](std::int64_t from, std::int64_t to, int part) {
      Runner runner{*this, functions, args, scratch + part * per_thread()};
      runner.begin();
      for (std::int64_t row = from; row < to; row += plan_.tile_rows)
        runner.tile(row, std::min(plan_.tile_rows, to - row));
    });
  }

 private:
  static constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread
  static constexpr std::int64_t vector = 64 / sizeof(C);

  std::int64_t per_thread() const { return plan_.scratch + static_cast<std::int64_t>(states_) * vector; }
  static Storage storage_of(DType dtype) {
    if (dtype == DType::bf16) return Storage::bf16;
    if (dtype == DType::f16) return Storage::f16;
    return dtype == DType::f32 && std::is_same_v<C, double> ? Storage::f32 : Storage::computed;
  }
  static ReduceKind kind_of(RowStatementKind kind) {
    return kind == RowStatementKind::sum   ? ReduceKind::sum
           : kind == RowStatementKind::max ? ReduceKind::max
                                           : ReduceKind::min;
  }

  // Runs the tiles of one thread.
  struct Runner {
    const RowInterpreter& owner;
    const RowFunctions<C>& functions;
    const KernelArgs& args;
    C* scratch;

    const RowSchedule& plan() const { return owner.plan_; }
    const RowSlot& slot(int s) const { return plan().slots[static_cast<std::size_t>(s)]; }
    DType dtype_of(int input) const { return owner.in_[static_cast<std::size_t>(input)]; }

    // The elements of a slot at a row and a column of the matrix.
    BlockOperand read(int s, std::int64_t row, std::int64_t column) const {
      if (s < 0) return {};
      const RowSlot& from = slot(s);
      if (from.input < 0) return {scratch + from.offset + (from.advances ? column : 0)};
      const DType dtype = dtype_of(from.input);
      const std::int64_t at = row * from.row_step + (from.advances ? column : 0);
      return {args.in[static_cast<std::size_t>(from.input)] + at * size_of(dtype), storage_of(dtype)};
    }
    const C* at(int s, std::int64_t row, std::int64_t column) const {
      return static_cast<const C*>(read(s, row, column).data);
    }
    C* write(int s, std::int64_t column) const { return scratch + slot(s).offset + (slot(s).advances ? column : 0); }
    C* state(std::size_t reduction) const {
      return scratch + plan().scratch + static_cast<std::int64_t>(reduction) * vector;
    }

    void copy(const BlockOperand& from, void* to, Storage storage, std::int64_t count) const {
      functions.blocks.run({ExprKind::variable, from, {}, {}, to, storage}, count);
    }
    // Converts elements of an operand, from index `at` on.
    void load(int input, std::int64_t at, C* to, std::int64_t count) const {
      const DType dtype = dtype_of(input);
      const std::byte* from = args.in[static_cast<std::size_t>(input)] + at * size_of(dtype);
      if (dtype == DType::b8)
        return functions.blocks.from_bools(reinterpret_cast<const std::uint8_t*>(from), to, count);
      copy({from, storage_of(dtype)}, to, Storage::computed, count);
    }

    // Fills the slots that are the same in all tiles.
    void begin() const {
      const std::int64_t rows = plan().tile_rows, columns = plan().columns;
      const auto fill = [&](C value, int to) {
        functions.blocks.fill_rows(&value, 1, slot(to).fills_block ? plan().block : rows, write(to, 0));
      };
      for (const auto& [to, value] : plan().constants) fill(static_cast<C>(value), to);
      for (const RowStep& step : plan().begin) {
        if (plan().inputs[static_cast<std::size_t>(step.a)] == RowExtent::scalar) {
          C element = 0;
          load(step.a, 0, &element, 1);
          fill(element, step.dst);
        } else {
          for (std::int64_t r = 0; r < rows; ++r) load(step.a, 0, write(step.dst, 0) + r * columns, columns);
        }
      }
    }

    void tile(std::int64_t row, std::int64_t rows) const {
      const std::int64_t columns = plan().columns, block = plan().block;
      for (const RowPhase& phase : plan().phases) {
        for (const RowStep& step : phase.per_row) run_per_row(step, row, rows);
        if (phase.blocks.empty()) continue;
        if (plan().is_one_block()) {
          run_block(phase, row, rows, 0, rows * columns);
          continue;
        }
        for (std::int64_t column = 0; column < columns; column += block)
          run_block(phase, row, 1, column, std::min(block, columns - column));
      }
      for (const RowStep& step : plan().end) store(step, read(step.a, row, 0), row, 1, 0, rows);
    }

    void run_per_row(const RowStep& step, std::int64_t row, std::int64_t rows) const {
      if (step.kind == RowStepKind::load) return load(step.a, row, write(step.dst, 0), rows);
      if (step.kind == RowStepKind::apply)
        return functions.blocks.run(
            {step.op, read(step.a, row, 0), read(step.b, row, 0), read(step.c, row, 0), write(step.dst, 0)}, rows);
      functions.blocks.fill_rows(at(step.a, row, 0), rows, plan().is_one_block() ? plan().columns : plan().block,
                                 write(step.dst, 0));
    }

    // Runs the steps of a phase on `count` elements from a column on: `rows` complete rows or a part of a row.
    void run_block(const RowPhase& phase, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t count) const {
      std::size_t reduction = 0;
      for (const RowStep& step : phase.blocks) switch (step.kind) {
          case RowStepKind::apply: {
            const auto result = static_cast<std::size_t>(step.dst);
            void* to = step.to_result ? static_cast<void*>(result_at(result, row, column)) : write(step.dst, column);
            functions.blocks.run(
                {step.op, read(step.a, row, column), read(step.b, row, column), read(step.c, row, column), to,
                 step.to_result ? storage_of(owner.out_[result]) : Storage::computed},
                count);
            break;
          }
          case RowStepKind::pair: {
            const auto result = static_cast<std::size_t>(step.dst);
            functions.run_pair(step, at(step.a, row, column), at(step.b, row, column), at(step.c, row, column),
                               step.to_result ? elements<C>(result_at(result, row, column)) : write(step.dst, column),
                               count);
            break;
          }
          case RowStepKind::load:
            load(step.a, (is_full(step.a) ? row * plan().columns : 0) + column, write(step.dst, column), count);
            break;
          case RowStepKind::reduce: {
            const C *const x = at(step.a, row, column), *const y = at(step.b, row, column);
            const ReduceKind kind = kind_of(step.reduction);
            if (plan().is_one_block()) {
              functions.reduce_rows(kind, x, y, rows, plan().columns, write(step.dst, 0));
              break;
            }
            C* joined = state(reduction++);
            functions.join_part(kind, x, y, count, column == 0, joined);
            if (column + count == plan().columns) *write(step.dst, 0) = functions.finish(kind, joined);
            break;
          }
          case RowStepKind::one_hot: mark_columns(step, row, rows, column, count); break;
          case RowStepKind::store: store(step, read(step.a, row, column), row, plan().columns, column, count); break;
          case RowStepKind::fill: break;  // only before blocks
        }
    }

    bool is_full(int input) const { return plan().inputs[static_cast<std::size_t>(input)] == RowExtent::full; }
    std::byte* result_at(std::size_t result, std::int64_t row, std::int64_t column) const {
      return args.out[result] + (row * plan().columns + column) * size_of(owner.out_[result]);
    }

    void mark_columns(const RowStep& step, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t count) const {
      C* to = write(step.dst, column);
      std::fill_n(to, count, C{0});
      const std::int64_t width = plan().is_one_block() ? plan().columns : count;
      const std::int64_t step_rows = plan().inputs[static_cast<std::size_t>(step.a)] == RowExtent::scalar ? 0 : 1;
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = index_at(step.a, (row + r) * step_rows) - plan().first_column - column;
        if (at >= 0 && at < width) to[r * width + at] = C{1};
      }
    }
    std::int64_t index_at(int input, std::int64_t at) const {
      const std::byte* from = args.in[static_cast<std::size_t>(input)];
      return dtype_of(input) == DType::i64 ? reinterpret_cast<const std::int64_t*>(from)[at]
                                           : reinterpret_cast<const std::int32_t*>(from)[at];
    }

    // Writes `count` elements of a result whose rows have `row_elements` elements.
    void store(const RowStep& step, BlockOperand from, std::int64_t row, std::int64_t row_elements, std::int64_t column,
               std::int64_t count) const {
      const auto result = static_cast<std::size_t>(step.dst);
      const DType dtype = owner.out_[result];
      std::byte* to = args.out[result] + (row * row_elements + column) * size_of(dtype);
      if (dtype == DType::b8)
        return functions.blocks.to_bools(static_cast<const C*>(from.data), reinterpret_cast<std::uint8_t*>(to), count);
      copy(from, to, storage_of(dtype), count);
    }
  };

  RowSchedule plan_;
  int parts_ = 1;  // the rows are divided among at most the threads of the team
  std::vector<DType> in_, out_;
  std::size_t states_ = 0;
};

}  // namespace karez::kernels
