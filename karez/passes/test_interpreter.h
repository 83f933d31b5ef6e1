// An interpreter that runs a plan in double precision, one actor at a time in a seeded order, for tests that a plan
// computes the same values as its graph.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>

#include "karez/base/text.h"
#include "karez/passes/namespace.h"
#include "karez/passes/test_evaluate.h"
#include "karez/plan/acts.h"
#include "karez/plan/call_group.h"
#include "karez/plan/collective_sequence.h"
#include "karez/plan/ports.h"

namespace karez::passes::testing {

class Interpreter {
 public:
  Interpreter(const Plan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {
    for (const Block& block : plan.blocks)
      blocks_.emplace_back(static_cast<std::size_t>(block.bytes / 8 + 1), std::nan(""));
    for (const Call& call : plan.setup) run(call);
  }

  double* block(BlockId id) { return blocks_[id].data(); }

  // `inputs` has the complete logical array of each input, by name.
  void launch(const std::map<std::string, Array>& inputs) {
    ById<ActorId, Ports> ports;
    for (ActorId a : plan_.actors.ids()) ports.emplace_back(plan_, a);
    Ports session_start = Ports::session_start(plan_), session_done = Ports::session_done(plan_);
    CollectiveSequence sequence(plan_);
    auto deliver = [&](const Message& m) {
      if (m.to != session_actor) {
        ports[m.to].take(m);
      } else {
        (m.kind == Message::Kind::filled ? session_done : session_start).take(m);
      }
    };
    session_start.begin();
    session_start.complete(deliver);
    std::map<std::pair<int, int>, std::vector<ActorId>> waiting;  // actors, by communicator and turn
    const auto acts_due = acts_per_launch(plan_);
    std::int64_t total_acts = 0;
    for (std::int64_t acts : acts_due) total_acts += acts;
    for (std::int64_t finished_acts = 0; finished_acts < total_acts;) {
      std::vector<ActorId> ready;
      for (ActorId a : ports.ids())
        if (ports[a].acts() < acts_due[a] && ports[a].ready() && sequence.may_begin(a)) ready.push_back(a);
      require(!ready.empty(), "the plan stalls after ", finished_acts, " of ", total_acts, " acts");
      ActorId a = ready[static_cast<std::size_t>(random_() % ready.size())];
      const std::int64_t act = ports[a].acts();
      ports[a].begin();
      const Actor& actor = plan_.actors[a];
      set_current_actor(actor, ports[a]);
      if (actor.body == BodyKind::collective) {
        auto& members =
            waiting[{actor.collective->communicator.index, actor.collective->turns[static_cast<std::size_t>(act)]}];
        members.push_back(a);
        sequence.position(a).begin(a);
        if (members.size() < plan_.communicators[actor.collective->communicator].members.size()) continue;
        collective(members, ports);
        for (ActorId m : members) sequence.position(m).end(), ports[m].complete(deliver), ++finished_acts;
        continue;
      }
      if (actor.body == BodyKind::input) {
        Array out = read(actor.bound[0]);
        std::size_t i = 0;
        for_each_index(out.shape, [&](std::vector<std::int64_t> index) {
          for (std::size_t d = 0; d < index.size(); ++d)
            index[d] += actor.slices[static_cast<std::size_t>(act) % actor.slices.size()].ints("begin")[d];
          out.data[i++] = at(inputs.at(actor.binding), index);
        });
        write(actor.bound[0], out);
      }
      if (actor.body == BodyKind::fetch) fetch(actor);
      for (const Call& call : actor.calls)
        if (call.acts.has(act)) run(call);
      ports[a].complete(deliver);
      ++finished_acts;
    }
  }
  std::map<std::string, Array> outputs;

 private:
  // Makes address() use the slots that the current act of this actor holds.
  void set_current_actor(const Actor& actor, const Ports& ports) { actor_ = &actor, ports_ = &ports; }
  int slot_of(RegisterId reg) const {
    for (std::size_t i = 0; i < actor_->outputs.size(); ++i)
      if (actor_->outputs[i].reg == reg) return ports_->output_slot(static_cast<int>(i));
    for (std::size_t i = 0; i < actor_->inputs.size(); ++i)
      if (actor_->inputs[i].reg == reg) return ports_->input_slot(static_cast<int>(i));
    fail("an act uses r", reg, ", which is not one of its ports");
  }
  double* address(const Operand& o) {
    if (o.reg.valid()) {
      const Register& r = plan_.reg(o.reg);
      return block(r.block) + (r.offset + slot_of(o.reg) * r.stride + o.offset) / 8;
    }
    return block(o.block) + o.offset / 8;
  }
  // Fetches one device's part of an output, or the entire output.
  void fetch(const Actor& actor) {
    Array result = read(actor.bound[0]);
    if (actor.slices.empty()) {
      outputs[actor.binding] = std::move(result);
      return;
    }
    auto output =
        outputs.try_emplace(actor.binding, make_array(actor.slices[0].ints("shape"), [](const auto&) { return 0.0; }))
            .first;
    std::size_t i = 0;
    for_each_index(result.shape, [&](std::vector<std::int64_t> index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] += actor.slices[0].ints("begin")[d];
      output->second.data[static_cast<std::size_t>(offset_of(index, row_major(output->second.shape)))] =
          result.data[i++];
    });
  }
  Array read(const Operand& o) {
    const double* from = address(o);
    return make_array(o.view.shape, [&](const auto& index) { return from[offset_of(index, o.view.strides)]; });
  }
  void write(const Operand& o, const Array& from) {
    require(from.data.size() == static_cast<std::size_t>(o.view.count()), "an operand ", o.view, " must have ",
            o.view.count(), " elements, got ", from.data.size());
    double* to = address(o);
    std::size_t i = 0;
    for_each_index(o.view.shape, [&](const auto& index) { to[offset_of(index, o.view.strides)] = from.data[i++]; });
  }

  static Array slice_piece(const Array& from, const PeerBox& piece) {
    return make_array(piece.size, [&](std::vector<std::int64_t> index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] += piece.begin[d];
      return at(from, index);
    });
  }

  void collective(const std::vector<ActorId>& actors, const ById<ActorId, Ports>& ports) {
    const Collective& first = *plan_.actors[actors[0]].collective;
    const auto& devices = plan_.communicators[first.communicator].members;
    std::vector<const Collective*> members(devices.size());
    std::vector<ActorId> member_actors(devices.size());
    for (ActorId a : actors) {
      const PlanDevice& device = plan_.devices[plan_.stream(plan_.actors[a].stream).device];
      const auto member = static_cast<std::size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
      members[member] = &*plan_.actors[a].collective;
      member_actors[member] = a;
    }
    auto select_member = [&](std::size_t member) {
      set_current_actor(plan_.actors[member_actors[member]], ports[member_actors[member]]);
    };
    auto reduce_into = [&](Array& sum, const Array& summand) {
      for (std::size_t i = 0; i < sum.data.size(); ++i)
        sum.data[i] = first.reduce == Reduce::max   ? max_or_nan(sum.data[i], summand.data[i])
                      : first.reduce == Reduce::min ? std::min(sum.data[i], summand.data[i])
                                                    : sum.data[i] + summand.data[i];
    };
    std::vector<Array> in;
    for (std::size_t m = 0; m < members.size(); ++m) select_member(m), in.push_back(read(members[m]->in));
    for (std::size_t m = 0; m < members.size(); ++m) {
      select_member(m);
      Array out = first.kind == CollectiveKind::all_reduce ? in[0] : read(members[m]->out);
      for (std::size_t k = 0; k < members.size(); ++k) {
        if (first.kind == CollectiveKind::all_reduce) {
          if (k > 0) reduce_into(out, in[k]);
          continue;
        }
        Array piece = slice_piece(in[k], members[k]->sends[m]);
        if (first.kind == CollectiveKind::reduce_scatter) {
          if (k == 0) out = piece;
          else reduce_into(out, piece);
          continue;
        }
        const PeerBox& target = members[m]->receives[k];
        std::size_t i = 0;
        for_each_index(target.size, [&](std::vector<std::int64_t> index) {
          for (std::size_t d = 0; d < index.size(); ++d) index[d] += target.begin[d];
          out.data[static_cast<std::size_t>(offset_of(index, row_major(out.shape)))] = piece.data[i++];
        });
      }
      write(members[m]->out, out);
    }
  }

  // Runs the calls of a group one after another, in any order, so that calls that depend on each other are detected.
  void run_group(const Call& group, std::size_t calls) {
    std::vector<std::size_t> order(calls);
    for (std::size_t i = 0; i < calls; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    const auto part = [&](const std::vector<Operand>& operands, std::size_t i) {
      const auto count = static_cast<std::ptrdiff_t>(operands.size() / calls),
                 from = count * static_cast<std::ptrdiff_t>(i);
      return std::vector<Operand>(operands.begin() + from, operands.begin() + from + count);
    };
    for (std::size_t i : order) {
      Call call = group;
      call.attrs.erase("calls");
      call.in = part(group.in, i), call.out = part(group.out, i);
      run(call);
    }
  }
  void run(const Call& call) {
    if (const int calls = calls_of(call.attrs); calls > 1) return run_group(call, static_cast<std::size_t>(calls));
    std::string op = call.kernel.substr(call.kernel.find('.') + 1);
    std::vector<Array> in;
    for (const Operand& o : call.in) in.push_back(read(o));
    const Shape& shape = call.out[0].view.shape;
    if (op == "sgd") {  // results are written one after another, so that results that share bytes are detected
      std::size_t k = (call.in.size() - 1) / 3;
      for (std::size_t t = 0; t < k; ++t) {
        auto out = run_sgd(in[3 * t], in[3 * t + 1], in[3 * t + 2], in.back().data[0], call.attrs.real("momentum"));
        write(call.out[2 * t], out[0]), write(call.out[2 * t + 1], out[1]);
      }
      return;
    }
    if (op == "row_program") {
      std::vector<Shape> shapes;
      for (const Operand& result : call.out) shapes.push_back(result.view.shape);
      const auto results = run_row_program(call.attrs.text("program"), in, shapes);
      for (std::size_t r = 0; r < results.size(); ++r) write(call.out[r], results[r]);
      return;
    }
    write(call.out[0], run_call(op, call.attrs, in, shape));
  }

  static std::vector<Array> run_sgd(Array w, Array m, const Array& g, double lr, double momentum) {
    for (std::size_t i = 0; i < w.data.size(); ++i)
      m.data[i] = momentum * m.data[i] + g.data[i], w.data[i] -= lr * m.data[i];
    return {w, m};
  }

  static Array run_call(const std::string& op, const Attrs& attrs, const std::vector<Array>& in, const Shape& shape) {
    if (op == "pointwise") return run_pointwise(attrs.text("expr"), in);
    if (op == "copy") return in[0];
    if (op == "constant") return make_array(shape, [&](const auto&) { return attrs.real("value"); });
    if (op == "reduce_sum")
      return run_reduction(in[0], shape, attrs.ints("axes"), 0, [](double a, double b) { return a + b; });
    if (op == "reduce_max")
      return run_reduction(in[0], shape, attrs.ints("axes"), -INFINITY,
                           [](double a, double b) { return std::max(a, b); });
    if (op == "pad") return run_pad(in[0], shape, attrs);
    if (op == "concat") return run_concat(in, shape);
    if (op == "matmul") {
      Array y = run_matmul(in[0], in[1], shape, attrs);
      for (std::size_t i = 0; i < y.data.size(); ++i) {
        if (attrs.flag("bias", false)) y.data[i] += in[2].data[i % in[2].data.size()];
        if (attrs.flag("relu", false)) y.data[i] = std::max(y.data[i], 0.0);
      }
      return y;
    }
    fail("the test's interpreter does not support ", op);
  }

  const Plan& plan_;
  const Actor* actor_ = nullptr;
  const Ports* ports_ = nullptr;
  std::mt19937_64 random_;
  ById<BlockId, std::vector<double>> blocks_;
};

}  // namespace karez::passes::testing
