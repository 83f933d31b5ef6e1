// DeferredReads: the expressions of a world that read variables, directly or through their operands, and have not run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace karez {

struct Expression;
struct WorldState;

// An expression that reads variables uses their values at the time when the user wrote it. So all deferred expressions
// run before a variable changes.
class DeferredReads {
 public:
  // Adds an expression. Returns whether too many tensors are deferred, so that the caller should run all of them.
  bool add(const std::shared_ptr<Expression>& expression);
  std::vector<std::shared_ptr<Expression>> take();   // removes and returns those that still exist, the latest first
  std::int64_t next_number() { return ++numbers_; }  // of an expression that reads variables itself

 private:
  std::mutex mutex_;
  std::atomic<std::size_t> size_{0};  // of the list
  std::vector<std::weak_ptr<Expression>> list_;
  std::atomic<std::int64_t> numbers_{0};
};

// Runs the deferred expressions that the user can still read. Call this before variables change. An expression that
// cannot run fails when it is read.
void run_deferred_reads(WorldState& world);

// Returns whether the expression, which reads variables and updates none, need not run immediately. If so, marks it as
// one that reads variables. Call this when the expression is complete.
bool defer_reads(Expression& expression);

}  // namespace karez
