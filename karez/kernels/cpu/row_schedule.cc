// Divides a row program into phases and assigns buffers to its values.
#include "karez/kernels/cpu/row_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace karez::kernels {
namespace {

constexpr std::int64_t whole_rows = 1024;  // elements of a block of several rows, so that all buffers fit in L1
// Elements of a block of a longer row. The sum of a row is that of hwy_reduce.cc if this is a multiple of four chunks.
constexpr std::int64_t long_block = 2048;
constexpr std::int64_t padding = 16;  // elements after a buffer: fills write up to a vector more
constexpr std::size_t max_slots = 128;

// Builds the schedule of one program.
class Scheduler {
 public:
  Scheduler(const CallSpec& call, RowProgram program, DType computed)
      : call_(call),
        program_(std::move(program)),
        computed_(computed) {}

  std::optional<RowSchedule> run() {
    if (!read_operands() || !find_extents()) return std::nullopt;
    find_phases();
    place_inputs();
    for (int p = 0; p <= last_phase_ + 1; ++p) {
      out_.phases.emplace_back();
      add_phase(p);
    }
    for (std::size_t r = 0; r < program_.results.size(); ++r)
      if (extent(program_.results[r]) == RowExtent::per_row)
        out_.end.push_back(store(program_.results[r], static_cast<int>(r)));
    if (out_.slots.size() > max_slots) return std::nullopt;
    return std::move(out_);
  }

 private:
  int variables() const { return program_.inputs + static_cast<int>(program_.statements.size()); }
  bool is_input(int v) const { return v < program_.inputs; }
  const RowStatement& statement(int v) const {
    return program_.statements[static_cast<std::size_t>(v - program_.inputs)];
  }
  const View& input(int v) const { return call_.in[static_cast<std::size_t>(v)]; }
  RowExtent& extent(int v) { return extents_[static_cast<std::size_t>(v)]; }
  bool is_full(int v) { return extent(v) == RowExtent::full || extent(v) == RowExtent::per_column; }
  // The first phase whose blocks may read the variable.
  int& available(int v) { return available_[static_cast<std::size_t>(v)]; }
  int& phase(int v) { return phase_[static_cast<std::size_t>(v)]; }  // in which a full value is computed
  std::vector<int> reads(int v) const {
    std::vector<int> out;
    variables_of(statement(v).expr, out);
    return out;
  }

  bool read_operands() {
    if (static_cast<int>(call_.in.size()) != program_.inputs || call_.out.size() != program_.results.size() ||
        call_.in.empty() || program_.results.empty() || variables() > max_row_variables)
      return false;
    for (const auto* views : {&call_.in, &call_.out})
      for (const View& view : *views) {
        if (view.rank() != 2) return false;
        out_.rows = std::max(out_.rows, view.shape[0]), out_.columns = std::max(out_.columns, view.shape[1]);
      }
    if (out_.rows < 1 || out_.columns < 2) return false;
    for (const auto* views : {&call_.in, &call_.out})
      for (const View& view : *views)
        if (!row_extent(view, out_.rows, out_.columns)) return false;
    out_.tile_rows = std::clamp<std::int64_t>(whole_rows / out_.columns, 1, out_.rows);
    out_.block = std::min(out_.tile_rows * out_.columns, long_block);
    return true;
  }

  bool find_extents() {
    extents_.resize(static_cast<std::size_t>(variables()));
    for (int v = 0; v < variables(); ++v) {
      if (is_input(v)) {
        extent(v) = *row_extent(input(v), out_.rows, out_.columns);
        out_.inputs.push_back(extent(v));
        continue;
      }
      const RowStatementKind kind = statement(v).kind;
      const std::vector<int> read = reads(v);
      if (kind == RowStatementKind::each) {
        const bool any_full = std::any_of(read.begin(), read.end(), [&](int r) { return is_full(r); });
        extent(v) = any_full ? RowExtent::full : RowExtent::per_row;
        for (const ExprOp& op : flatten(statement(v).expr).ops)
          if (is_bitwise(op.op)) return false;
      } else if (kind == RowStatementKind::one_hot) {
        if (!is_input(read[0]) || extent(read[0]) == RowExtent::full || extent(read[0]) == RowExtent::per_column ||
            !is_index(input(read[0])))
          return false;
        extent(v) = RowExtent::full;
        out_.indices.push_back(read[0]);
        out_.first_column = call_.attrs.integer("offset", 0);
      } else {
        // A narrower operand would have to be converted; statements are not.
        if (extent(read[0]) != RowExtent::full || (is_input(read[0]) && input(read[0]).dtype != computed_))
          return false;
        extent(v) = RowExtent::per_row;
      }
      for (int r : read)
        if (kind != RowStatementKind::one_hot && is_input(r) && !has_dtype(input(r).dtype)) return false;
    }
    for (std::size_t r = 0; r < program_.results.size(); ++r) {
      const RowExtent result = *row_extent(call_.out[r], out_.rows, out_.columns);
      const bool is_row = result == RowExtent::per_row || (out_.rows == 1 && result == RowExtent::scalar);
      if (extent(program_.results[r]) == RowExtent::full ? result != RowExtent::full : !is_row) return false;
      if (!has_dtype(call_.out[r].dtype)) return false;
    }
    return true;
  }

  static bool is_index(const View& view) { return view.dtype == DType::i32 || view.dtype == DType::i64; }
  bool has_dtype(DType dtype) const {
    return dtype == DType::b8 || dtype == DType::f32 || (computed_ == DType::f32 ? is_half(dtype) : dtype == computed_);
  }

  // Reductions run as early as possible, other full values as late as possible, so that few values are alive between
  // phases.
  void find_phases() {
    available_.assign(static_cast<std::size_t>(variables()), 0);
    phase_.assign(static_cast<std::size_t>(variables()), 0);
    for (int v = program_.inputs; v < variables(); ++v) {
      for (int r : reads(v)) available(v) = std::max(available(v), available(r));
      const RowStatementKind kind = statement(v).kind;
      phase(v) = available(v);
      const bool reduces = kind != RowStatementKind::each && kind != RowStatementKind::one_hot;
      if (reduces) ++available(v);
      if (reduces || extent(v) == RowExtent::full) last_phase_ = std::max(last_phase_, phase(v));
    }
    std::vector<int> first_use(static_cast<std::size_t>(variables()), std::numeric_limits<int>::max());
    for (int result : program_.results) first_use[static_cast<std::size_t>(result)] = last_phase_;
    for (int v = variables() - 1; v >= program_.inputs; --v) {
      if (extent(v) == RowExtent::full)
        phase(v) = std::max(phase(v), std::min(first_use[static_cast<std::size_t>(v)], last_phase_));
      if (extent(v) != RowExtent::full && statement(v).kind == RowStatementKind::each) continue;
      for (int r : reads(v)) {
        int& first = first_use[static_cast<std::size_t>(r)];
        first = std::min(first, phase(v));
      }
    }
    last_use_.assign(static_cast<std::size_t>(variables()), -1);
    for (int v = program_.inputs; v < variables(); ++v)
      if (extent(v) == RowExtent::full || statement(v).kind != RowStatementKind::each)
        for (int r : reads(v)) {
          int& last = last_use_[static_cast<std::size_t>(r)];
          last = std::max(last, phase(v));
        }
    for (int result : program_.results)
      if (extent(result) == RowExtent::full) last_use_[static_cast<std::size_t>(result)] = last_phase_;
  }

  // Slots.
  int add_slot(RowSlot slot) {
    out_.slots.push_back(slot);
    return static_cast<int>(out_.slots.size()) - 1;
  }
  int scratch_slot(std::int64_t elements, bool advances = false) {
    RowSlot slot;
    slot.offset = out_.scratch, slot.advances = advances;
    out_.scratch += (elements + 2 * padding - 1) / padding * padding;
    return add_slot(slot);
  }
  int operand_slot(int v, std::int64_t row_step) {
    RowSlot slot;
    slot.input = v, slot.row_step = row_step, slot.advances = row_step != 1;
    return add_slot(slot);
  }

  void place_inputs() {
    slots_.assign(static_cast<std::size_t>(variables()), -1);     // of a full value, or of one value per row
    repeated_.assign(static_cast<std::size_t>(variables()), -1);  // of values per row, repeated along their rows
    for (int v = 0; v < program_.inputs; ++v) {
      int& slot = slots_[static_cast<std::size_t>(v)];
      switch (extent(v)) {
        case RowExtent::full: slot = operand_slot(v, out_.columns); break;
        case RowExtent::per_row: slot = operand_slot(v, 1); break;
        case RowExtent::scalar:
          if (is_index(input(v))) {
            slot = operand_slot(v, 0);
            break;
          }
          slot = repeated_[static_cast<std::size_t>(v)] = scratch_slot(out_.block);
          out_.begin.push_back(load(v, slot));
          break;
        case RowExtent::per_column:
          if (out_.is_one_block()) {
            slot = scratch_slot(out_.block);
            out_.begin.push_back(load(v, slot));
          } else {
            slot = operand_slot(v, 0);
          }
          break;
      }
    }
  }

  int constant_slot(double value) {
    for (const auto& [slot, other] : out_.constants)
      if (other == value && std::signbit(other) == std::signbit(value)) return slot;
    const int slot = scratch_slot(out_.block);
    out_.constants.emplace_back(slot, value);
    return slot;
  }

  static RowStep load(int v, int slot) {
    RowStep step;
    step.kind = RowStepKind::load, step.a = v, step.dst = slot;
    return step;
  }
  RowPhase& current() { return out_.phases.back(); }

  // The slot of a block that only the current phase uses.
  int take_local() {
    if (free_.empty()) {
      const int slot = scratch_slot(out_.block);
      free_.push_back(slot);
      locals_.push_back(slot);
    }
    const auto lowest = std::min_element(free_.begin(), free_.end());
    const int slot = *lowest;
    free_.erase(lowest);
    return slot;
  }
  void release(int slot) {
    if (std::find(locals_.begin(), locals_.end(), slot) != locals_.end()) free_.push_back(slot);
  }

  // The slot from which a step on blocks reads variable `v`.
  int block_slot(int v) {
    int& slot = slots_[static_cast<std::size_t>(v)];
    if (is_full(v)) {
      const bool needs_load = is_input(v) && out_.slots[static_cast<std::size_t>(slot)].input >= 0 &&
                              (input(v).dtype == DType::b8 || (input(v).dtype != computed_ && uses_in_phase(v) > 1));
      if (!needs_load) return slot;
      int& loaded = loaded_[static_cast<std::size_t>(v)];
      if (loaded < 0) {
        loaded = take_local();
        current().blocks.push_back(load(v, loaded));
      }
      return loaded;
    }
    int& repeated = repeated_[static_cast<std::size_t>(v)];
    if (repeated < 0) {
      repeated = scratch_slot(out_.block);
      RowStep fill;
      fill.kind = RowStepKind::fill, fill.a = row_slot(v), fill.dst = repeated;
      current().per_row.push_back(fill);
    }
    return repeated;
  }
  // The slot from which a step on one value per row reads variable `v`. Operands of other types are converted first.
  int row_slot(int v) {
    int& slot = slots_[static_cast<std::size_t>(v)];
    if (is_input(v) && extent(v) == RowExtent::per_row && input(v).dtype != computed_ &&
        out_.slots[static_cast<std::size_t>(slot)].input >= 0) {
      slot = scratch_slot(out_.tile_rows);
      current().per_row.push_back(load(v, slot));
    }
    return slot;
  }

  int uses_in_phase(int v) {
    int uses = 0;
    for (int s = program_.inputs; s < variables(); ++s) {
      if (phase(s) != phase_number_ || extent(s) != RowExtent::full) continue;
      for (const ExprOp& op : flatten(statement(s).expr).ops) uses += op.a == v || op.b == v || op.c == v;
    }
    return uses;
  }

  RowStep store(int v, int result) {
    RowStep step;
    step.kind = RowStepKind::store, step.a = slots_[static_cast<std::size_t>(v)], step.dst = result;
    return step;
  }

  // Adds the operations of an expression; the last one writes `dst`.
  template <class SlotOf> void add_expression(const Expr& expr, int dst, bool to_result, bool per_row, SlotOf slot_of) {
    const ExprProgram program = flatten(expr);
    std::vector<int> registers(static_cast<std::size_t>(program.registers), -1);
    std::vector<int> read;
    variables_of(expr, read);
    for (int v : read) registers[static_cast<std::size_t>(v)] = slot_of(v);
    for (std::size_t c = 0; c < program.constants.size(); ++c)
      registers[static_cast<std::size_t>(program.variables) + c] = constant_slot(program.constants[c]);
    auto& steps = per_row ? current().per_row : current().blocks;
    const auto slot = [&](int r) { return r < 0 ? -1 : registers[static_cast<std::size_t>(r)]; };
    RowStep last;
    last.dst = dst, last.to_result = to_result;
    if (program.ops.empty()) {
      last.a = slot(program.result);
      steps.push_back(last);
      return;
    }
    std::vector<int> temporaries;
    for (std::size_t n = 0; n < program.ops.size(); ++n) {
      const ExprOp& op = program.ops[n];
      RowStep step = last;
      step.op = op.op, step.a = slot(op.a), step.b = slot(op.b), step.c = slot(op.c);
      if (n + 1 < program.ops.size()) {
        int& target = registers[static_cast<std::size_t>(op.dst)];
        if (target < 0) {
          target = per_row ? scratch_slot(out_.tile_rows) : take_local();
          temporaries.push_back(target);
        }
        step.dst = target, step.to_result = false;
      }
      steps.push_back(step);
    }
    for (int temporary : temporaries) release(temporary);
  }

  void add_phase(int p) {
    phase_number_ = p;
    loaded_.assign(static_cast<std::size_t>(variables()), -1);
    free_ = locals_;
    for (int v = program_.inputs; v < variables(); ++v) {
      if (extent(v) == RowExtent::full || statement(v).kind != RowStatementKind::each || available(v) != p) continue;
      int& slot = slots_[static_cast<std::size_t>(v)];
      slot = scratch_slot(out_.tile_rows);
      add_expression(statement(v).expr, slot, false, true, [&](int r) { return row_slot(r); });
    }
    std::vector<int> order;  // the statements that run on the blocks of this phase
    for (int v = program_.inputs; v < variables(); ++v)
      if (phase(v) == p && (extent(v) == RowExtent::full || statement(v).kind != RowStatementKind::each))
        order.push_back(v);
    for (std::size_t i = 0; i < order.size(); ++i) {
      add_block_statement(order[i], i + 1 == order.size());
      for (int r : reads(order[i])) {
        if (!is_full(r) || is_input(r) || last_use_[static_cast<std::size_t>(r)] != p || is_result(r)) continue;
        const bool read_later =
            std::any_of(order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end(), [&](int s) {
              const std::vector<int> read = reads(s);
              return std::find(read.begin(), read.end(), r) != read.end();
            });
        if (!read_later) release(slots_[static_cast<std::size_t>(r)]);
      }
    }
    if (p != last_phase_) return;
    for (std::size_t r = 0; r < program_.results.size(); ++r)
      if (extent(program_.results[r]) == RowExtent::full && slots_[static_cast<std::size_t>(program_.results[r])] >= 0)
        current().blocks.push_back(store(program_.results[r], static_cast<int>(r)));
  }
  bool is_result(int v) const {
    return std::find(program_.results.begin(), program_.results.end(), v) != program_.results.end();
  }

  void add_block_statement(int v, bool is_last) {
    const RowStatement& s = statement(v);
    int& slot = slots_[static_cast<std::size_t>(v)];
    RowStep step;
    if (s.kind == RowStatementKind::one_hot) {
      step.kind = RowStepKind::one_hot, step.a = reads(v)[0], step.dst = slot = full_slot(v);
      return current().blocks.push_back(step);
    }
    if (s.kind != RowStatementKind::each) {
      slot = scratch_slot(out_.tile_rows);
      step.kind = RowStepKind::reduce, step.reduction = s.kind, step.a = block_slot(reads(v)[0]), step.dst = slot;
      current().reductions.push_back(slot);
      return current().blocks.push_back(step);
    }
    // The last statement writes directly to its result. Other results are stored after all steps.
    const auto result = std::find(program_.results.begin(), program_.results.end(), v);
    const auto number = static_cast<std::size_t>(result - program_.results.begin());
    const bool direct = is_last && result != program_.results.end() && phase(v) == last_phase_ &&
                        std::find(result + 1, program_.results.end(), v) == program_.results.end() &&
                        call_.out[number].dtype != DType::b8;
    if (!direct) slot = full_slot(v);
    add_expression(s.expr, direct ? static_cast<int>(number) : slot, direct, false,
                   [&](int r) { return block_slot(r); });
  }

  int full_slot(int v) {
    if (last_use_[static_cast<std::size_t>(v)] == phase(v)) return take_local();
    return out_.is_one_block() ? scratch_slot(out_.block) : scratch_slot(out_.columns, true);
  }

  const CallSpec& call_;
  RowProgram program_;
  DType computed_;
  RowSchedule out_;
  std::vector<RowExtent> extents_;
  std::vector<int> available_, phase_, last_use_, slots_, repeated_, loaded_;
  std::vector<int> free_, locals_;
  int last_phase_ = 0, phase_number_ = 0;
};

}  // namespace

std::optional<RowExtent> row_extent(const View& view, std::int64_t rows, std::int64_t columns) {
  if (view.rank() != 2 || !view.contiguous()) return std::nullopt;
  const std::int64_t r = view.shape[0], c = view.shape[1];
  if (r == rows && c == columns) return RowExtent::full;
  if (r == 1 && c == 1) return RowExtent::scalar;
  if (r == rows && c == 1) return RowExtent::per_row;
  if (r == 1 && c == columns) return RowExtent::per_column;
  return std::nullopt;
}

std::optional<RowSchedule> row_schedule(const CallSpec& call, DType computed) {
  if (!call.attrs.has("program")) return std::nullopt;
  return Scheduler(call, parse_row_program(call.attrs.text("program")), computed).run();
}

}  // namespace karez::kernels
