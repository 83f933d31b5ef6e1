// Data sets whose elements a C++ coroutine generates.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"

namespace karez::data {

// The return type of such a coroutine. An exception that leaves the coroutine ends the epoch with this error.
//
//   data::Coroutine countdown(std::int64_t epoch) {
//     for (std::int64_t i = 10; i > 0; --i) co_yield data::element(HostArray::of<std::int64_t>({}, {i}));
//   }
//   data::Dataset numbers = data::from_coroutine(countdown);
class Coroutine {
 public:
  struct promise_type {
    Coroutine get_return_object() { return Coroutine(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(Element value) {
      element = std::move(value);
      return {};
    }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    std::optional<Element> element;
    std::exception_ptr error;
  };

  Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Coroutine& operator=(Coroutine&&) = delete;
  ~Coroutine() {
    if (handle_) handle_.destroy();
  }

  // Continues to the next `co_yield`; nothing at the end.
  std::optional<Element> next() {
    promise_type& promise = handle_.promise();
    promise.element.reset();
    if (!handle_.done()) handle_.resume();
    if (promise.error) std::rethrow_exception(std::exchange(promise.error, nullptr));
    return std::move(promise.element);
  }

 private:
  explicit Coroutine(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// The elements of the coroutine that `make` starts for an epoch. An iterator that resumes reads the elements again that
// were read before.
Dataset from_coroutine(std::function<Coroutine(std::int64_t epoch)> make, std::string name = "coroutine");

}  // namespace karez::data
