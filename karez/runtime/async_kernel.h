// Asynchronous kernels, such as those of a timer, a network or a device. An act that runs one ends when a thread calls
// its `Completion`.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "karez/kernels/kernel.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct Mail;
class Mailbox;

// The kernel must call it exactly once per run, and pass the error if there was one. It is small and copyable, and
// calling it allocates no memory.
class Completion {
 public:
  Completion(Mailbox* box, Mail* mail, std::exception_ptr* error) : box_(box), mail_(mail), error_(error) {}
  void operator()(std::exception_ptr error = nullptr) const;

 private:
  Mailbox* box_;
  Mail* mail_;
  std::exception_ptr* error_;
};

// An asynchronous kernel. Add it to a Session before you load a plan that names it. An actor that calls it must have no
// other call.
struct AsyncKernel {
  std::string name;                                                 // such as "test.timer"
  std::function<void(const KernelArgs&, const Completion&)> start;  // called on the worker; must return immediately
};

}  // namespace karez::runtime
