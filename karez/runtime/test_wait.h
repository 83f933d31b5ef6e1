// For tests of the runtime: waits with a timeout, and a pause in which an unwanted event would occur.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "karez/runtime/namespace.h"
#include "karez/runtime/session.h"

namespace karez::runtime {

// Waits until `condition` holds; returns false after a minute.
inline bool eventually(const std::function<bool()>& condition) {
  for (auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60); !condition();
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (std::chrono::steady_clock::now() > until) return false;
  return true;
}
inline void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

// Waits until the launch is over, and rethrows its error. If the launch hangs, prints the wait graph and aborts the
// test run.
inline void finish(Session& session, const Launch& launch) {
  if (!eventually([&] { return launch.done(); })) {
    std::fprintf(stderr, "a launch hangs\n%s", session.wait_graph().c_str());
    std::abort();
  }
  launch.wait();
}

}  // namespace karez::runtime
