// Tests whether threads of a team spin or sleep while they wait, by the processor time that waiting takes.
#include "karez/kernels/cpu/passive_teams.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

// GCC's implementation of "#pragma omp parallel", because tests are compiled without OpenMP.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

namespace karez::kernels {
namespace {

double processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Runs a team of two whose threads alternately sleep for 2 ms while the other one waits. Returns the processor time
// divided by the time slept.
double waiting_cost() {
  const double begin = processor_time();
  for (int sleeper = 0; sleeper < 50; ++sleeper)
    GOMP_parallel(
        [](void* i) {
          if (omp_get_thread_num() == *static_cast<int*>(i) % 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        },
        &sleeper, 2, 0);
  return (processor_time() - begin) / 0.1;
}

TEST(PassiveTeams, WaitingThreadsSleepInsteadOfSpinning) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "on one core OpenMP's teams never spin";
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    GTEST_SKIP() << "the environment sets how teams wait";
  for (int round = 0; round < 3; ++round) {
    EXPECT_GT(waiting_cost(), 0.3) << "round " << round;
    {
      const PassiveTeams passive(omp_get_num_procs());
      waiting_cost();  // a thread that is already spinning continues until its wait ends
      EXPECT_LT(waiting_cost(), 0.2) << "round " << round;
      const PassiveTeams another(omp_get_num_procs());  // as for another session
      EXPECT_LT(waiting_cost(), 0.2) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace karez::kernels
