// Future: the results of a call of a compiled function.
#pragma once

#include <cstddef>
#include <memory>

#include "karez/api/array.h"

namespace karez {

// The results of a call that may still run. A future keeps the results alive. Waiting throws the error of a failed
// launch.
class Future {
 public:
  void wait() const;
  bool done() const;
  std::size_t size() const;
  Array value(std::size_t i = 0) const;  // does not wait
  // Waits, and returns the only element of result i as a number of type T.
  template <class T = double> T item(std::size_t i = 0, SourceLine where = SourceLine::current()) const {
    const Array array = value(i);
    require(array.type().count() == 1, "item: output ", i, " must have exactly one element, got ", array.type());
    return array.item<T>(where);
  }

 private:
  friend class Function;
  struct State;
  explicit Future(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace karez
