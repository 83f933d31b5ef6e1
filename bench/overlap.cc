// Trains Linear layers of equal size, as one rank of several or alone. Answers "run N" lines with the seconds of N
// steps and the share of gradients that had been sent when the last backward act began (see overlap.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/report.h"
#include "karez/api/state/world_state.h"
#include "karez/karez.h"

using namespace karez;

namespace {

struct Layers : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  Layers(std::int64_t count, std::int64_t width) {
    for (std::int64_t i = 0; i < count; ++i)
      layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), width, width));
  }
  Tensor operator()(Tensor x) {
    for (auto& layer : layers) x = tanh((*layer)(x));
    return x;
  }
};

HostArray numbers(std::int64_t rows, std::int64_t columns) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  HostArray out({DType::f32, {rows, columns}});
  for (float& value : out.data<float>()) value = normal(random);
  return out;
}

// The begin and end of an actor's act in one launch; in these plans every actor acts once per launch.
struct Span {
  std::int64_t begin = 0, end = INT64_MAX;
};
using Spans = std::map<plan::ActorId, Span>;

std::map<std::uint32_t, Spans> spans_by_ticket(const plan::Plan& plan, const std::vector<runtime::EventLog>& logs) {
  std::map<std::uint32_t, Spans> out;
  for (const runtime::EventLog& log : logs)
    for (const runtime::Event& event : log.events) {
      if (!plan.actors.has(event.actor)) continue;
      if (event.kind == runtime::EventKind::began) out[event.ticket][event.actor].begin = event.time;
      if (event.kind == runtime::EventKind::ended) out[event.ticket][event.actor].end = event.time;
    }
  return out;
}

std::int64_t collective_bytes(const plan::Actor& actor) {
  return actor.collective ? actor.collective->in.view.bytes() : 0;
}

// Returns the share of collective bytes that was sent early: before the beginning of the last act that produces an
// operand of a collective.
double early_share(const plan::Plan& plan, const Spans& spans) {
  std::int64_t last_begin = 0, early_bytes = 0, total_bytes = 0;
  for (const auto& [id, span] : spans)
    for (const plan::Port& in : plan.actor(id).collective ? plan.actor(id).inputs : std::vector<plan::Port>{})
      if (auto producer_span = spans.find(plan.reg(in.reg).producer); producer_span != spans.end())
        last_begin = std::max(last_begin, producer_span->second.begin);
  for (const auto& [id, span] : spans) {
    total_bytes += collective_bytes(plan.actor(id));
    early_bytes += span.end <= last_begin ? collective_bytes(plan.actor(id)) : 0;
  }
  return total_bytes == 0 ? 0 : static_cast<double>(early_bytes) / static_cast<double>(total_bytes);
}

// Returns the median share over the launches whose events are all still in the event rings.
double early_share(const plan::Plan& plan, const std::vector<runtime::EventLog>& logs) {
  std::size_t max_spans = 0;
  const auto launches = spans_by_ticket(plan, logs);
  for (const auto& [ticket, spans] : launches) max_spans = std::max(max_spans, spans.size());
  std::vector<double> shares;
  for (const auto& [ticket, spans] : launches)
    if (spans.size() == max_spans) shares.push_back(early_share(plan, spans));
  return shares.empty() ? 0 : bench::median(shares);
}

void serve(const DeviceMesh& mesh, const Function& step, const HostArray& x, bool print_plan) {
  char line[64];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    const int steps = std::atoi(line + 4);
    auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = step(x).item();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%.9f %.6f %.6f\n", seconds, loss, early_share(step.plan(), mesh.world->session.events()));
    std::fflush(stdout);
  }
  if (print_plan) std::fprintf(stderr, "%s\n%s\n", step.plan_text().c_str(), step.summary().c_str());
}

Tensor compute_loss(Layers& net, const Tensor& x) {
  Tensor y = net(x);
  return mean(y * y);
}

void run(const Options& options) {
  CostTable costs;
  costs.axis_links.push_back({"data", {options.real("alpha"), options.real("beta")}});
  World world({.team = 1, .costs = costs});
  const DeviceMesh mesh = world.mesh(cat("data=", world.ranks()));
  Layers net(options.integer("layers"), options.integer("width"));
  optim::SGD sgd(net.parameters(), {.lr = 1e-3});
  const std::string function = options.one_of("what", {"step", "alone", "forward"});
  const Function step = compile(mesh, [&](Tensor x) {
    std::vector<Tensor> out{compute_loss(net, x)};
    if (function == "step") sgd.step(grad(out[0], net.parameters()));
    if (function == "alone")
      for (Tensor& gradient : grad(out[0], net.parameters())) out.push_back(gradient);
    return out;
  });
  serve(mesh, step, numbers(options.integer("rows") * world.ranks(), options.integer("width")),
        !options.text("plan").empty());
}

}  // namespace

int main(int count, char** words) {
  try {
    Options options({{"layers", "12", "number of layers of equal width"},
                     {"width", "256", "width of each layer"},
                     {"rows", "16384", "rows of the batch per rank"},
                     {"what", "step", "step: with the update; alone: loss and gradients; forward: only the loss"},
                     {"alpha", "1e-4", "seconds per message, for the planner"},
                     {"beta", "1e-8", "seconds per byte"},
                     {"plan", "", "if not empty, print the plan at the end"}});
    if (!options.read(count, words)) return std::printf("%s", options.help().c_str()), 0;
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  }
  return 0;
}
