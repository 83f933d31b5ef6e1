// Runs the kernels on every op case with random and special operands, and on fused calls. Writes inputs and outputs as
// .npy files and attributes to cases.json, so that a Python test can compare them with a reference.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "karez/base/text.h"
#include "tests/evaluate.h"
#include "tests/special_cases.h"
#include "tools/npy_out.h"

namespace {

using namespace karez::tests;  // the cases of the tests
using karez::tools::write_npy;
namespace fs = std::filesystem;

std::string json(const Attr& attr) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) return quote(value);
        else if constexpr (std::is_same_v<T, Ints>) return cat("[", join(value, ", "), "]");
        else return cat(value);
      },
      attr);
}
std::string json(const Attrs& attrs) {
  return cat(
      "{", join(attrs.items(), ", ", [](const auto& item) { return cat(quote(item.first), ": ", json(item.second)); }),
      "}");
}

struct Job {
  OpCase op;
  int steps = 1;  // of an update: the results of one step are the operands of the next
  std::vector<HostArray> in = {};
  bool special = false;  // operands hold special values
  bool fused = false;    // the call includes bias and ReLU
};

std::vector<Job> jobs(const OpTable& ops, std::mt19937_64& random) {
  std::vector<Job> out;
  for (const OpCase& c : op_cases()) {
    out.push_back({c});
    const bool update = ops.at(c.op).role == Role::update;
    if (update) out.push_back({c, 3});
    const OpCase single = as_f32(c);
    if (single.in != c.in || single.attrs != c.attrs) {
      out.push_back({single});
      if (update) out.push_back({single, 3});
    }
  }
  for (Job& job : out) job.in = random_inputs(job.op, random);
  for (SpecialCase& c : special_cases(random)) out.push_back({c.op, 1, c.in, true});
  for (SpecialCase& c : fused_cases(random)) out.push_back({c.op, 1, c.in, true, true});
  return out;
}

// Returns the call that runs a job. A fused call is the call of the matmul or conv2d, with the bias as an additional
// operand and attributes for the fused ops.
CallSpec call_of(const Job& job, const OpTable& ops) {
  OpCase unfused = job.op;
  for (const char* name : {"bias", "relu"})
    if (job.fused) unfused.attrs.erase(name);
  if (job.fused) unfused.in.resize(2);
  const Graph graph = graph_of(unfused, ops);
  const NodeView node{&graph, NodeId(graph.nodes.size() - 1)};
  CallSpec call = stored_call(node, node.in_types(), node.out_types(), whole_attrs(node));
  if (!job.fused) return call;
  for (std::size_t i = 2; i < job.op.in.size(); ++i) call.in.push_back(View(job.op.in[i]));
  for (const char* name : {"bias", "relu"}) call.attrs.set(name, job.op.attrs.flag(name));
  return call;
}

std::vector<HostArray> run_steps(const KernelRow& row, const CallSpec& call, const OpDef& op, std::vector<HostArray> in,
                                 int steps) {
  std::vector<HostArray> out;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) {
      for (auto [from, to] : op.in_place) in[static_cast<std::size_t>(from)] = out[static_cast<std::size_t>(to)];
      for (HostArray& count : in)
        if (count.dtype() == DType::i64) count = HostArray::of<std::int64_t>({}, {count.data<std::int64_t>()[0] + 1});
    }
    out = run_call(row, call, std::span<const HostArray>(in).last(call.in.size()));
  }
  return out;
}

// Describes a gradient op of the pointwise table as JSON: the op, the operand to which the gradient belongs, and the
// names of the gradient op's operands. Returns "null" for any other op.
std::string gradient_json(const std::string& op) {
  for (const Pointwise& row : pointwise_rows())
    for (std::size_t k = 0; k < row.grads.size(); ++k)
      if (const PointwiseGradient& grad = row.grads[k]; grad.op == op && pointwise_row(op)->grads.empty())
        return cat("{\"of\": ", quote(row.name), ", \"operand\": ", k, ", \"operands\": ", row.operands,
                   ", \"names\": [", join(grad.operands, ", ", [](const std::string& name) { return quote(name); }),
                   "]}");
  return "null";
}

int write_all(const fs::path& folder, std::uint64_t seed) {
  fs::create_directories(folder);
  const OpTable ops = all_ops();
  const std::vector<KernelRow> rows = cpu_kernels();
  std::mt19937_64 random(seed);
  std::string text = cat("{\"seed\": ", seed, ", \"cases\": [\n");
  int number = 0, results = 0;
  for (const Job& job : jobs(ops, random)) {
    const std::vector<HostArray>& in = job.in;
    const CallSpec call = call_of(job, ops);
    const auto file = [&](const std::string& label, const HostArray& array) {
      const std::string name = cat(number, "_", label, ".npy");
      write_npy(folder / name, array);
      return quote(name);
    };
    std::string inputs, outputs;
    for (std::size_t i = 0; i < in.size(); ++i) inputs += cat(i ? ", " : "", file(cat("in", i), in[i]));
    for (const KernelRow& row : rows) {
      if (row.op != call.op || !row.supports(call)) continue;
      const auto out = run_steps(row, call, ops.at(job.op.op), in, job.steps);
      std::string files;
      for (std::size_t i = 0; i < out.size(); ++i) files += cat(i ? ", " : "", file(cat(row.name, "_out", i), out[i]));
      outputs += cat(outputs.empty() ? "" : ", ", quote(row.name), ": [", files, "]");
      ++results;
    }
    if (outputs.empty()) fail("no kernel supports ", print(call));
    text += cat(number ? ",\n" : "", "{\"name\": ", quote(cat(number, " ", print(job.op))),
                ", \"op\": ", quote(job.op.op), ", \"steps\": ", job.steps,
                ", \"special\": ", job.special ? "true" : "false", ", \"gradient\": ", gradient_json(job.op.op),
                ", \"attrs\": ", json(job.op.attrs), ", \"in\": [", inputs, "], \"out\": {", outputs, "}}");
    ++number;
  }
  std::ofstream(folder / "cases.json") << text << "\n]}\n";
  std::cout << number << " cases, " << results << " results in " << folder.string() << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: op_values FOLDER [SEED]\n";
    return 2;
  }
  try {
    return write_all(argv[1], argc == 3 ? std::stoull(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::cerr << "op_values: " << error.what() << "\n";
    return 1;
  }
}
