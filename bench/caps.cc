// What does less memory cost? Plans steps of an MLP and of a transformer with decreasing memory limits, until no plan
// fits.
//
//   bench_caps [mlp | gpt | data=2,model=2]
//
// Each row shows the limit (as a share of the memory of the unlimited plan, and in bytes), planned and measured bytes,
// predicted microseconds, the share of parameters and of the optimiser's state on a device, whether parameters are
// gathered late, CPU seconds to compile, the largest relative difference between the losses with and without the limit,
// and the recomputed modules. The exit code is 1 if the measured bytes exceed the limit, if a smaller limit gives a
// shorter predicted time, or if losses differ.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "bench/cap_sweep.h"

namespace karez::bench {
namespace {

bool sweep(const CapCase& c, CapResult (*step_under_cap)(const CapCase&, std::int64_t)) {
  const CapResult unlimited = step_under_cap(c, 0);
  bool all_ok = true;
  double previous_seconds = unlimited.seconds - 0.1;  // the summary rounds the time
  std::printf("%s on %s: %lld bytes without a limit, compiled in %.2f s\n", c.name, c.mesh,
              static_cast<long long>(unlimited.planned), unlimited.compile_seconds);
  std::printf("  %6s %10s %10s %10s %9s %7s %7s %5s %8s %9s  %s\n", "limit", "bytes", "planned", "measured",
              "predicted", "params", "state", "late", "seconds", "losses", "recomputed");
  std::printf("  %6s %10s %10lld %10lld %9.1f %7.3f %7.3f\n", "-", "-", static_cast<long long>(unlimited.planned),
              static_cast<long long>(unlimited.measured), unlimited.seconds, unlimited.parameters, unlimited.state);
  for (int percent = 95; percent >= 5; percent -= 5) {
    const std::int64_t cap = unlimited.planned * percent / 100;
    const CapResult limited = step_under_cap(c, cap);
    if (!limited.error.empty()) {
      std::printf("  %5d%% %10lld too small: %s\n", percent, static_cast<long long>(cap),
                  limited.error.substr(0, limited.error.find(';')).c_str());
      break;
    }
    const double loss_difference = max_relative_difference(unlimited.losses, limited.losses);
    const bool ok = limited.measured <= cap && limited.seconds >= previous_seconds && loss_difference <= 1e-10;
    all_ok = all_ok && ok;
    std::printf("  %5d%% %10lld %10lld %10lld %9.1f %7.3f %7.3f %5s %8.2f %9.1e  %s%s\n", percent,
                static_cast<long long>(cap), static_cast<long long>(limited.planned),
                static_cast<long long>(limited.measured), limited.seconds, limited.parameters, limited.state,
                limited.late_gather ? "yes" : "", limited.compile_seconds, loss_difference, limited.recomputed.c_str(),
                ok ? "" : "  WRONG");
    std::fflush(stdout);
    previous_seconds = limited.seconds;
  }
  return all_ok;
}

// Compares ZeRO by layout rules (nothing split, state split, or parameters split too) with the plan that the planner
// chooses under a limit of the same number of bytes.
void compare_with_manual_rules(CapCase c) {
  for (const auto& [name, parameters, state] :
       {std::tuple("whole", false, false), {"zero 1-2", false, true}, {"zero 3", true, true}}) {
    c.rules = zero_rules(parameters, state);
    const CapResult by_rules = mlp_under_cap(c, 0);
    c.rules.clear();
    const CapResult chosen = mlp_under_cap(c, by_rules.planned);
    std::printf(
        "  %-8s by rules: %lld bytes, %.1f us; chosen with that limit: %lld bytes, %.1f us, params %.3f, state %.3f\n",
        name, static_cast<long long>(by_rules.planned), by_rules.seconds, static_cast<long long>(chosen.planned),
        chosen.seconds, chosen.parameters, chosen.state);
  }
}

int run(std::string_view selection) {
  setenv("KAREZ_CACHE", "off", 1);  // so that plans are computed, not read from the cache
  CostTable expensive_messages;     // messages cost more than their bytes, so that state is Broadcast without a limit
  expensive_messages.link = {1e-4, 1e-12};
  CostTable wire;  // bytes are expensive too, so that activations keep their layouts
  wire.link = {2e-5, 1e-9};
  const CapCase mlp[] = {{"mlp of 1024 by batch", "data=4", wire, true, 3, 1024},
                         {"mlp by batch", "data=4", expensive_messages, true},
                         {"mlp by batch", "data=2,model=2", expensive_messages, true},
                         {"mlp", "data=4"}};
  const CapCase gpt[] = {{"gpt", "data=4"}, {"gpt", "data=2,model=2"}};
  bool all_ok = true;
  for (const CapCase& c : mlp)
    if (selection.empty() || selection == "mlp") {
      all_ok = sweep(c, mlp_under_cap) && all_ok;
      if (c.by_batch && c.mesh == std::string_view("data=4")) compare_with_manual_rules(c);
    }
  for (const CapCase& c : gpt)
    if (selection.empty() || selection == "gpt" || selection == c.mesh) all_ok = sweep(c, gpt_under_cap) && all_ok;
  return all_ok ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) { return karez::bench::run(argc > 1 ? argv[1] : ""); }
