// For tests of the runtime: a few small kernels, a manual timer, and plans with known results.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/async_kernel.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/simulator.h"

namespace karez::runtime {

KernelRow test_row(std::string op, std::function<PreparedKernel(const CallSpec&)> prepare);

template <class T = float> T* test_data(std::byte* address) { return reinterpret_cast<T*>(address); }

// The kernels: matmul, relu, sum (y = bias + the sum of all inputs), fail (throws in run number `at`) and count
// (y[0] += 1).
std::vector<KernelRow> test_kernels();

inline const View test_vector(DType::f32, {4});

// A clock that the test advances: an act that begins at time t is over when the clock reaches t + 1.
struct ManualTimer {
  std::mutex mutex;
  std::condition_variable changed;
  int time = 0, ended = 0;
  std::vector<std::pair<int, Completion>> pending;

  AsyncKernel kernel() {
    return {"test.timer", [this](const KernelArgs&, const Completion& done) {
              std::lock_guard lock(mutex);
              pending.emplace_back(time + 1, done);
              changed.notify_all();
            }};
  }
  // Waits until exactly `count` acts run. Returns false if that does not happen within a minute.
  bool active(std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return pending.size() == count; });
  }
  void tick() {
    std::vector<Completion> over;
    {
      std::lock_guard lock(mutex);
      ++time;
      for (auto& [end, done] : pending)
        if (end <= time) over.push_back(done);
      std::erase_if(pending, [&](const auto& p) { return p.first <= time; });
    }
    for (const Completion& done : over) done();
  }
};

// Returns true if an act of the actor has begin <= time < end.
inline bool is_active(const Simulation& simulation, ActorId actor, double time) {
  return std::any_of(simulation.acts.begin(), simulation.acts.end(),
                     [&](const SimulatedAct& a) { return a.actor == actor && a.begin <= time && time < a.end; });
}

// Returns a plan that adds one to the variable "n" and fetches the result.
Plan counting_plan(const std::string& name = "counting");

// A random acyclic graph. Actors without operands read input "x", every other actor adds a bias and its operands, and
// values without consumers are fetched. Slots, priorities, workers and numbers of consumers are random; some edges
// carry no data and only order acts.
struct RandomGraph {
  PlanBuilder s;
  std::vector<std::pair<std::string, float>> expected;  // expected values by output, if all elements of x are one

  RandomGraph(unsigned seed, int workers);
};

}  // namespace karez::runtime
