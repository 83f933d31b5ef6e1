// Kernels that finish later: a timer, a network, a device. The actor's act is over when `Done` is called, from any
// thread.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "karez/kernels/kernel.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct Mail;
class Mailbox;

// To be called exactly once per run, with the error if there was one. Small, copyable, allocates nothing.
class Completion {
 public:
  Completion(Mailbox* box, Mail* mail, std::exception_ptr* error) : box_(box), mail_(mail), error_(error) {}
  void operator()(std::exception_ptr error = nullptr) const;

 private:
  Mailbox* box_;
  Mail* mail_;
  std::exception_ptr* error_;
};

// A row that a Session gets before plans that name it are loaded. Such a call is its actor's only one.
struct AsyncKernel {
  std::string name;                                                 // "test.timer"
  std::function<void(const KernelArgs&, const Completion&)> start;  // on the worker: must return at once
};

}  // namespace karez::runtime
