// Asynchronous kernels, such as a timer, a network or a device: the act is over when its `Completion` is called, from
// any thread.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "karez/kernels/kernel.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct Mail;
class Mailbox;

// Must be called exactly once per run, with the error if there was one. Small, copyable, does not allocate.
class Completion {
 public:
  Completion(Mailbox* box, Mail* mail, std::exception_ptr* error) : box_(box), mail_(mail), error_(error) {}
  void operator()(std::exception_ptr error = nullptr) const;

 private:
  Mailbox* box_;
  Mail* mail_;
  std::exception_ptr* error_;
};

// An asynchronous kernel. Must be added to a Session before a plan that names it is loaded. A call of it must be the
// only call of its actor.
struct AsyncKernel {
  std::string name;                                                 // "test.timer"
  std::function<void(const KernelArgs&, const Completion&)> start;  // called on the worker: must return at once
};

}  // namespace karez::runtime
