// Tests of collectives and links on several threads: results are correct under any timing, and no run allocates memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/transport/test_links.h"
#include "karez/comm/transport/test_local_hub.h"
#include "karez/comm/transport/ucx_wire.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// These count the allocations of all threads of this program.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // std::stable_sort allocates in this way
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace karez::comm {
namespace {
using namespace test;

// A simple event that wakes the thread of a member.
class WakeEvent {
 public:
  void set() {
    std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_one();
  }
  // Returns false if the event is not set in time, because a wake was lost.
  bool wait() {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, std::chrono::seconds(20), [this] { return set_; });
    set_ = false;
    return in_time;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Every member runs all cases `repeats` times in order; thread m mod workers serves member m. Each member calls
// `before_case` before each case.
template <class BeforeCase>
void run_on_threads(std::deque<Case>& cases, int n, int workers, int repeats, BeforeCase before_case) {
  TestHub hub(n);
  std::vector<WakeEvent> wake_events(static_cast<std::size_t>(workers));
  std::vector<std::deque<CollectiveRun>> runs(static_cast<std::size_t>(n));
  for (int m = 0; m < n; ++m) {
    hub.endpoint(m).set_wake([&wake_events, m, workers] { wake_events[static_cast<std::size_t>(m % workers)].set(); });
    for (Case& c : cases) runs[m].emplace_back(c.specs[m], hub.endpoint(m));
  }
  std::vector<std::size_t> position(static_cast<std::size_t>(n), 0);  // each entry is used by one thread
  std::size_t total = cases.size() * static_cast<std::size_t>(repeats);
  auto serve = [&](int worker) {
    while (true) {
      bool progress = false, done = true;
      for (int m = worker; m < n; m += workers) {
        if (position[m] == total) continue;
        std::size_t i = position[m] % cases.size();
        Case& c = cases[i];
        if (!runs[m][i].active()) {
          before_case(m);
          runs[m][i].start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
        }
        if (runs[m][i].advance()) progress = true, ++position[m];
        done = done && position[m] == total;
      }
      if (done) return;
      if (progress) continue;
      if (!wake_events[static_cast<std::size_t>(worker)].wait()) {
        ADD_FAILURE() << "worker " << worker << " was never woken";
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) threads.emplace_back(serve, w);
  for (std::thread& t : threads) t.join();
  std::int64_t planned = 0;
  for (Case& c : cases) {
    EXPECT_EQ(c.difference(), "");
    planned += c.planned() * repeats;
  }
  EXPECT_EQ(hub.bytes_sent(), planned);
}

TEST(CollectiveThreads, FourMembersOnOneTwoAndFourThreadsGetTheSameBits) {
  for (int workers : {1, 2, 4}) {
    std::deque<Case> cases;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) cases.push_back(random_case(4, seed));
    for (CollectiveAlgorithm a : {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct, CollectiveAlgorithm::flat,
                                  CollectiveAlgorithm::recursive})
      cases.push_back(make_all_reduce(DType::f32, Op::sum, 4, {10007}, a, 4096, 9));
    run_on_threads(cases, 4, workers, 5, [](int) {});
  }
}

TEST(CollectiveThreads, ALateMemberDelaysTheOthersButDoesNotStopThem) {
  std::deque<Case> cases;
  for (std::uint64_t seed = 100; seed < 110; ++seed) cases.push_back(random_case(3, seed));
  run_on_threads(cases, 3, 3, 2, [](int m) {
    if (m == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
}

TEST(CollectiveThreads, ARunAllocatesNothing) {
  std::deque<Case> cases;
  for (CollectiveAlgorithm a : {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct, CollectiveAlgorithm::flat,
                                CollectiveAlgorithm::recursive}) {
    cases.push_back(make_all_reduce(DType::f32, Op::sum, 4, {1003}, a, 512, 1));
    cases.push_back(make_all_gather(DType::f32, {3, 4}, 1, {3, 0, 2, 2}, a, 16, 2));
    cases.push_back(make_reduce_scatter(DType::f32, Op::sum, {3, 4}, 1, {3, 0, 2, 2}, a, 16, 3));
    cases.push_back(make_all_to_all(DType::f32, {3, 4}, 0, {3, 0, 2, 2}, 1, {1, 1, 1, 2}, a, 16, 4));
  }
  TestHub hub(4);
  int wakes = 0;
  std::vector<std::deque<CollectiveRun>> runs(4);
  for (int m = 0; m < 4; ++m) {
    hub.endpoint(m).set_wake([&wakes] { ++wakes; });
    for (Case& c : cases) runs[m].emplace_back(c.specs[m], hub.endpoint(m));
  }
  const std::int64_t initial_count = allocations.load();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (int m = 0; m < 4; ++m)
      runs[m][i].start(cases[i].in[m].data(), cases[i].out[m].data(), cases[i].staging[m].data());
    for (bool done = false; !done;) {
      done = true;
      for (int m = 0; m < 4; ++m) done = runs[m][i].advance() && done;
    }
  }
  EXPECT_EQ(allocations.load() - initial_count, 0);
  EXPECT_GT(initial_count, 0) << "the counter must count allocations";
  EXPECT_GT(wakes, 0);
  for (Case& c : cases) EXPECT_EQ(c.difference(), "");
}

// The counter includes the threads of the reactors.
TEST(LinkThreads, MessagesBetweenProcessesAllocateNothing) {
  for (const TransportKind& kind : transports) {
    if (kind.exists == has_ucx) continue;  // the UCX library allocates memory
    for (bool polling : {false, true}) {
      auto transport = kind.make();
      auto ends = transport->open(4);
      for (int m = 0; m < 2; ++m) ends->end(m).set_busy_poll(polling);
      std::vector<std::byte> from(3 << 20), to(3 << 20);
      auto exchange = [&] {
        for (std::int64_t size : {8, 100, 70000, 3 << 20, 0}) {
          Link &sender = ends->link(0), &receiver = ends->link(1);
          const std::int64_t received = receiver.received(), sent = sender.sent();
          for (int i = 0; i < 4; ++i) receiver.post_receive(to.data(), size);
          for (int i = 0; i < 4; ++i) sender.send(from.data(), size);
          TestTimeout timeout(20);
          while (receiver.received() < received + 4 || sender.sent() < sent + 4) {
            sender.poll();
            receiver.poll();
            if (timeout.expired()) return false;
          }
        }
        return true;
      };
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(exchange());
      // With a new interleaving of the threads, a queue may grow once more.
      std::int64_t allocation_count = 1;
      for (int round = 0; round < 5 && allocation_count != 0; ++round) {
        const std::int64_t initial_count = allocations.load();
        for (int i = 0; i < 10; ++i) ASSERT_TRUE(exchange());
        allocation_count = allocations.load() - initial_count;
      }
      EXPECT_EQ(allocation_count, 0) << kind.name << (polling ? ", polling" : "");
      for (int m = 0; m < 2; ++m) ends->end(m).set_busy_poll(false);
    }
  }
}

}  // namespace
}  // namespace karez::comm
