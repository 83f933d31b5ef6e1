// Whether gradients are recorded.
#pragma once

namespace karez {

// Returns whether results that are computed on this thread outside of compiled functions remember how they were
// computed, so that `backward` can compute gradients. The default is true.
bool is_grad_enabled();
bool set_grad_enabled(bool enabled);  // returns the previous value

// A scope without recording of gradients.
class NoGrad {
 public:
  NoGrad() : enabled_(set_grad_enabled(false)) {}
  ~NoGrad() { set_grad_enabled(enabled_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool enabled_;
};

}  // namespace karez
