// Kernels and random plans for tests of the runtime.
#include "karez/runtime/test_plans.h"

namespace karez::runtime {

KernelRow test_row(std::string op, std::function<PreparedKernel(const CallSpec&)> prepare) {
  return {"test." + op, op, 0, [](const CallSpec&) { return true; }, nullptr, std::move(prepare)};
}

std::vector<KernelRow> test_kernels() {
  std::vector<KernelRow> rows;
  rows.push_back(test_row("matmul", [](const CallSpec& c) -> PreparedKernel {
    std::int64_t m = c.in[0].shape[0], k = c.in[0].shape[1], n = c.in[1].shape[1];
    return [=](const KernelArgs& args) {
      const float *a = test_data(args.in[0]), *b = test_data(args.in[1]);
      float* y = test_data(args.out[0]);
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          y[i * n + j] = 0;
          for (std::int64_t l = 0; l < k; ++l) y[i * n + j] += a[i * k + l] * b[l * n + j];
        }
    };
  }));
  rows.push_back(test_row("relu", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count()](const KernelArgs& args) {
      for (std::int64_t i = 0; i < n; ++i) test_data(args.out[0])[i] = std::max(test_data(args.in[0])[i], 0.0f);
    };
  }));
  rows.push_back(test_row("sum", [](const CallSpec& c) -> PreparedKernel {
    return [n = c.out[0].count(), bias = static_cast<float>(c.attrs.real("bias", 0))](const KernelArgs& args) {
      for (std::int64_t i = 0; i < n; ++i) {
        float sum = bias;
        for (std::byte* in : args.in) sum += test_data(in)[i];
        test_data(args.out[0])[i] = sum;
      }
    };
  }));
  rows.push_back(test_row("fail", [](const CallSpec& c) -> PreparedKernel {
    auto runs = std::make_shared<std::atomic<std::int64_t>>(0);
    return [runs, at = c.attrs.integer("at")](const KernelArgs&) { require(++*runs != at, "run ", at, " failed"); };
  }));
  rows.push_back(test_row("count", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs& args) { test_data(args.out[0])[0] += 1; };
  }));
  return rows;
}

Plan counting_plan(const std::string& name) {
  PlanBuilder s(1, name);
  ActorId n = s.actor("n", 0, 0, BodyKind::state), add = s.actor("add"), out = s.actor("out", 1, 0, BodyKind::fetch);
  BlockId block = s.block(BlockKind::variable, 0, 4, "n", "f32[1]");
  s.start(n);
  RegisterId old = s.edge(n, {add}), fresh = s.edge(add, {out}, 1, 4);
  (void)old;
  s.plan.registers[fresh].block = block;  // the new value overwrites the old one
  s.done(out);
  s.call(add, "test.count", {in_block(block, View(DType::f32, {1}))}, {in_block(block, View(DType::f32, {1}))});
  s.plan.actors[out].binding = "n";
  s.plan.actors[out].bound = {in_register(fresh, View(DType::f32, {1}))};
  return s.plan;
}

RandomGraph::RandomGraph(unsigned seed, int workers) : s(1, cat("random.", seed)) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int count = 3 + below(12);
  std::vector<ActorId> actors;
  std::vector<std::vector<int>> data(static_cast<std::size_t>(count)), order(static_cast<std::size_t>(count));
  for (int i = 1; i < count; ++i)
    for (int edges = below(3); edges >= 0; --edges)
      (below(5) == 0 ? order : data)[static_cast<std::size_t>(i)].push_back(below(i));
  std::vector<float> value(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto& from = data[static_cast<std::size_t>(i)];
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    actors.push_back(s.actor(cat("node.", i), below(workers), 0, from.empty() ? BodyKind::input : BodyKind::compute));
    s.plan.actors.back().priority = below(3);
    value[static_cast<std::size_t>(i)] = from.empty() ? 1.0f : static_cast<float>(i);
    for (int f : from) value[static_cast<std::size_t>(i)] += value[static_cast<std::size_t>(f)];
  }
  // One register for each producer of data, so that some registers have many consumers.
  std::vector<std::vector<ActorId>> readers(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    for (int f : data[static_cast<std::size_t>(i)])
      readers[static_cast<std::size_t>(f)].push_back(actors[static_cast<std::size_t>(i)]);
  std::vector<RegisterId> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    ActorId sink;
    auto at = static_cast<std::size_t>(i);
    bool last = readers[at].empty();
    if (last) {
      sink = s.actor(cat("fetch.", i), below(workers), 0, BodyKind::fetch);
      readers[at].push_back(sink);
    }
    out[at] = s.edge(actors[at], readers[at], 1 + below(3), 16);
    if (!last) continue;
    s.plan.actors[sink].binding = cat("y", i);
    s.plan.actors[sink].bound = {in_register(out[at], test_vector)};
    s.done(sink);
    expected.emplace_back(cat("y", i), value[at]);
  }
  for (int i = 0; i < count; ++i) {
    auto at = static_cast<std::size_t>(i);
    auto& before = order[at];
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (int f : before) s.edge(actors[static_cast<std::size_t>(f)], {actors[at]}, 1 + below(2));
    if (data[at].empty()) {
      s.start(actors[at]);
      Actor& a = s.plan.actors[actors[at]];
      a.binding = "x";
      a.bound = {in_register(out[at], test_vector)};
      a.slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
      continue;
    }
    std::vector<Operand> in;
    for (int f : data[at]) in.push_back(in_register(out[static_cast<std::size_t>(f)], test_vector));
    s.call(actors[at], "test.sum", in, {in_register(out[at], test_vector)}, {{"bias", static_cast<double>(i)}});
  }
}

}  // namespace karez::runtime
