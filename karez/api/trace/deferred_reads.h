// DeferredReads: the expressions of a world that read variables, directly or through their operands, and have not run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace karez {

struct Expression;

// An expression that reads variables uses their values at the time when the user wrote it. So all deferred expressions
// run before a variable changes.
class DeferredReads {
 public:
  struct Functions {
    bool (*may_be_read)(const Expression&);  // whether the user can still read a tensor that is not computed
    void (*run)(Expression&);                // computes these tensors; an error is reported by reading them
  };

  // Adds an expression. If many deferred expressions may still be read, runs all of them, which bounds the memory of
  // operands.
  void add(const std::shared_ptr<Expression>& expression, const Functions& functions);
  // Runs all of them. Call this before variables change. If `Functions::run` throws, the others remain in the list.
  void run();
  std::int64_t next_number() { return ++numbers_; }  // of an expression that reads variables itself

 private:
  std::mutex mutex_;
  std::atomic<std::size_t> size_{0};  // of the list
  std::vector<std::weak_ptr<Expression>> list_;
  Functions functions_ = {};
  std::atomic<std::int64_t> numbers_{0};
};

}  // namespace karez
