// Lists the steps of each phase of a row program, and assigns buffers to its values.
#include "karez/kernels/cpu/row_schedule.h"

#include <algorithm>
#include <cmath>

#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/reduce_kind.h"

namespace karez::kernels {
namespace {

// The most elements of a block: larger ones would leave the L1 cache, and smaller ones take more time for calls. The
// sum of a long row is that of hwy_reduce.cc because this is a multiple of four chunks.
constexpr std::int64_t max_block = 2048;
static_assert(max_block % (4 * chunk) == 0);
constexpr std::int64_t padding = 16;  // elements after a buffer: fills write up to a vector more
constexpr std::size_t max_slots = 128;

// Builds the schedule of one program.
class Scheduler {
 public:
  Scheduler(const CallSpec& call, const RowValues& values, DType computed)
      : call_(call),
        values_(values),
        computed_(computed) {}

  std::optional<RowSchedule> run() {
    out_.rows = values_.rows(), out_.columns = values_.columns();
    out_.tile_rows = std::clamp<std::int64_t>(max_block / out_.columns, 1, out_.rows);
    out_.block = std::min(out_.tile_rows * out_.columns, max_block);
    for (int v = 0; v < values_.inputs(); ++v) out_.inputs.push_back(values_.extent(v));
    place_inputs();
    for (int p = 0; p <= values_.last_phase() + 1; ++p) {
      out_.phases.emplace_back();
      add_phase(p);
    }
    for (std::size_t r = 0; r < results().size(); ++r)
      if (values_.extent(results()[r]) == RowExtent::per_row)
        out_.end.push_back(store(results()[r], static_cast<int>(r)));
    if (out_.slots.size() > max_slots) return std::nullopt;
    return std::move(out_);
  }

 private:
  const View& input(int v) const { return call_.in[static_cast<std::size_t>(v)]; }
  const std::vector<int>& results() const { return values_.program().results; }
  std::size_t variables() const { return static_cast<std::size_t>(values_.variables()); }

  // Slots.
  int add_slot(RowSlot slot) {
    out_.slots.push_back(slot);
    return static_cast<int>(out_.slots.size()) - 1;
  }
  int scratch_slot(std::int64_t elements, bool advances = false) {
    RowSlot slot;
    slot.offset = out_.scratch, slot.advances = advances;
    // The processor compares only the last bits of the addresses of loads and earlier stores. So blocks start at
    // different distances from the beginning of a page; otherwise loads would wait for stores to other blocks.
    const std::int64_t page = 4096 / size_of(computed_), distance = 1152 / size_of(computed_);
    const std::int64_t padded = (elements + 2 * padding - 1) / padding * padding;
    out_.scratch += padded < page / 2 ? padded : round_up(padded - padding, page) + distance;
    return add_slot(slot);
  }
  int operand_slot(int v, std::int64_t row_step) {
    RowSlot slot;
    slot.input = v, slot.row_step = row_step, slot.advances = row_step != 1;
    return add_slot(slot);
  }

  void place_inputs() {
    slots_.assign(variables(), -1);     // of a full value, or of one value per row
    repeated_.assign(variables(), -1);  // of values per row, repeated along their rows
    for (int v = 0; v < values_.inputs(); ++v) {
      int& slot = slots_[static_cast<std::size_t>(v)];
      switch (values_.extent(v)) {
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

  int constant_slot(double value, bool per_row) {
    const auto known = std::find_if(out_.constants.begin(), out_.constants.end(), [&](const auto& constant) {
      return constant.second == value && std::signbit(constant.second) == std::signbit(value);
    });
    const int slot = known == out_.constants.end() ? scratch_slot(out_.block) : known->first;
    if (known == out_.constants.end()) out_.constants.emplace_back(slot, value);
    out_.slots[static_cast<std::size_t>(slot)].fills_block |= !per_row;
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
    if (values_.is_full(v)) {
      const bool needs_load = values_.is_input(v) && out_.slots[static_cast<std::size_t>(slot)].input >= 0 &&
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
    out_.slots[static_cast<std::size_t>(repeated)].fills_block = true;
    return repeated;
  }
  // The slot from which a step on one value per row reads variable `v`. Operands of other types are converted first.
  int row_slot(int v) {
    int& slot = slots_[static_cast<std::size_t>(v)];
    if (values_.is_input(v) && values_.extent(v) == RowExtent::per_row && input(v).dtype != computed_ &&
        out_.slots[static_cast<std::size_t>(slot)].input >= 0) {
      slot = scratch_slot(out_.tile_rows);
      current().per_row.push_back(load(v, slot));
    }
    return slot;
  }

  int uses_in_phase(int v) {
    int uses = 0;
    for (int s = values_.inputs(); s < values_.variables(); ++s) {
      if (values_.phase(s) != phase_number_ || values_.extent(s) != RowExtent::full) continue;
      for (const ExprOp& op : flatten(values_.statement(s).expr).ops) uses += op.a == v || op.b == v || op.c == v;
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
      registers[static_cast<std::size_t>(program.variables) + c] = constant_slot(program.constants[c], per_row);
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
    loaded_.assign(variables(), -1);
    free_ = locals_;
    for (int v = values_.inputs(); v < values_.variables(); ++v) {
      if (values_.runs_on_blocks(v) || values_.available(v) != p) continue;
      int& slot = slots_[static_cast<std::size_t>(v)];
      slot = scratch_slot(out_.tile_rows);
      add_expression(values_.statement(v).expr, slot, false, true, [&](int r) { return row_slot(r); });
    }
    std::vector<int> order;  // the statements that run on the blocks of this phase
    for (int v = values_.inputs(); v < values_.variables(); ++v)
      if (values_.phase(v) == p && values_.runs_on_blocks(v)) order.push_back(v);
    for (std::size_t i = 0; i < order.size(); ++i) {
      add_block_statement(order[i], i + 1 == order.size());
      for (int r : values_.reads(order[i])) {
        if (!values_.is_full(r) || values_.is_input(r) || values_.last_use(r) != p || values_.is_result(r)) continue;
        const bool read_later =
            std::any_of(order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end(), [&](int s) {
              const std::vector<int> read = values_.reads(s);
              return std::find(read.begin(), read.end(), r) != read.end();
            });
        if (!read_later) release(slots_[static_cast<std::size_t>(r)]);
      }
    }
    if (p == values_.last_phase())
      for (std::size_t r = 0; r < results().size(); ++r)
        if (values_.extent(results()[r]) == RowExtent::full && slots_[static_cast<std::size_t>(results()[r])] >= 0)
          current().blocks.push_back(store(results()[r], static_cast<int>(r)));
    join_steps();
  }

  // Whether elements of the slot are stored in the type of the computation.
  bool is_computed(int slot) const {
    const int operand = out_.slots[static_cast<std::size_t>(slot)].input;
    return operand < 0 || input(operand).dtype == computed_;
  }
  // Whether steps from `next` on of the current phase read the slot before one of them writes it.
  bool is_read_from(std::size_t next, int slot) {
    for (std::size_t i = next; i < current().blocks.size(); ++i) {
      const RowStep& step = current().blocks[i];
      const bool reads_slots = step.kind != RowStepKind::load && step.kind != RowStepKind::one_hot;
      if (reads_slots && (step.a == slot || step.b == slot || step.c == slot)) return true;
      if (step.dst == slot && !step.to_result && step.kind != RowStepKind::store) return false;
    }
    return false;
  }
  // Joins a sum, difference or product to the next step, if only that step reads it: it then stays in registers.
  void join_steps() {
    std::vector<RowStep>& steps = current().blocks;
    const auto is_arithmetic = [](ExprKind op) {
      return op == ExprKind::add || op == ExprKind::sub || op == ExprKind::mul;
    };
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      const RowStep first = steps[i];
      RowStep& next = steps[i + 1];
      const bool is_local = std::find(locals_.begin(), locals_.end(), first.dst) != locals_.end();
      if (first.kind != RowStepKind::apply || first.to_result || !is_arithmetic(first.op) || !is_local ||
          !is_computed(first.a) || !is_computed(first.b))
        continue;
      const bool is_overwritten = next.dst == first.dst && !next.to_result && next.kind != RowStepKind::store;
      if (!is_overwritten && is_read_from(i + 2, first.dst)) continue;
      if (next.kind == RowStepKind::reduce) {
        if (next.a != first.dst || next.b >= 0 || first.op != ExprKind::mul || next.reduction != RowStatementKind::sum)
          continue;
        next.a = first.a, next.b = first.b;
      } else if (next.kind == RowStepKind::apply) {
        const bool is_exp = next.op == ExprKind::exp && next.a == first.dst;
        const bool is_swapped = next.b == first.dst;
        if (!is_exp && (!is_arithmetic(next.op) || (next.a == first.dst) == is_swapped)) continue;
        const int other = is_exp ? -1 : is_swapped ? next.a : next.b;
        if (other >= 0 && !is_computed(other)) continue;
        if (next.to_result && call_.out[static_cast<std::size_t>(next.dst)].dtype != computed_) continue;
        next.kind = RowStepKind::pair, next.second = next.op, next.op = first.op, next.is_swapped = is_swapped;
        next.a = first.a, next.b = first.b, next.c = other;
      } else {
        continue;
      }
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void add_block_statement(int v, bool is_last) {
    const RowStatement& s = values_.statement(v);
    int& slot = slots_[static_cast<std::size_t>(v)];
    RowStep step;
    if (s.kind == RowStatementKind::one_hot) {
      step.kind = RowStepKind::one_hot, step.a = values_.reads(v)[0], step.dst = slot = full_slot(v);
      out_.indices.push_back(step.a);
      out_.first_column = call_.attrs.integer("offset", 0);
      return current().blocks.push_back(step);
    }
    if (s.kind != RowStatementKind::each) {
      slot = scratch_slot(out_.tile_rows);
      step.kind = RowStepKind::reduce, step.reduction = s.kind, step.a = block_slot(values_.reads(v)[0]),
      step.dst = slot;
      current().reductions.push_back(slot);
      return current().blocks.push_back(step);
    }
    // The last statement writes directly to its result. Other results are stored after all steps.
    const auto result = std::find(results().begin(), results().end(), v);
    const auto number = static_cast<std::size_t>(result - results().begin());
    const bool direct = is_last && result != results().end() && values_.phase(v) == values_.last_phase() &&
                        std::find(result + 1, results().end(), v) == results().end() &&
                        call_.out[number].dtype != DType::b8;
    if (!direct) slot = full_slot(v);
    add_expression(s.expr, direct ? static_cast<int>(number) : slot, direct, false,
                   [&](int r) { return block_slot(r); });
  }

  int full_slot(int v) {
    if (values_.last_use(v) == values_.phase(v)) return take_local();
    return out_.is_one_block() ? scratch_slot(out_.block) : scratch_slot(out_.columns, true);
  }

  const CallSpec& call_;
  const RowValues& values_;
  DType computed_;
  RowSchedule out_;
  std::vector<int> slots_, repeated_, loaded_;  // of each variable; -1: none
  std::vector<int> free_, locals_;
  int phase_number_ = 0;
};

}  // namespace

std::optional<RowSchedule> row_schedule(const CallSpec& call, DType computed) {
  const auto values = RowValues::of(call, computed);
  return values ? Scheduler(call, *values, computed).run() : std::nullopt;
}

}  // namespace karez::kernels
