// Tests of requests for short time slices.
#include "karez/comm/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace karez::comm {
namespace {

// On a kernel without time slices the request has no effect.
TEST(TimeSlice, AShortTimeSliceKeepsSchedulingClassAndNiceness) {
  std::thread([] {
    setpriority(PRIO_PROCESS, 0, 3);
    const int nice = getpriority(PRIO_PROCESS, 0), policy = sched_getscheduler(0);
    request_short_time_slice();
    request_short_time_slice();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
    EXPECT_EQ(sched_getscheduler(0), policy);
    std::int64_t attributes[6] = {};  // as defined by sched_getattr(2); attributes[3] is the time slice in ns
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0), 0);
    EXPECT_TRUE(attributes[3] == 0 || attributes[3] == 100'000 || policy != SCHED_OTHER) << attributes[3];
  }).join();
}

}  // namespace
}  // namespace karez::comm
