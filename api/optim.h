// Optimisers: a step writes, into the program being traced, how parameters and the optimiser's own state change.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/tensor.h"

namespace karez::optim {

// A learning rate that the host may change between launches: an input of every function that steps with it, never a constant, so that no
// change compiles anything.
class Rate {
 public:
  explicit Rate(double value);
  double get() const { return *value_; }
  void set(double value);  // finite, and not below 0
  // The scalar under `name` in the current trace, as a value of `dtype`.
  ValueId read(const std::string& name, DType dtype) const;

 private:
  std::shared_ptr<std::atomic<double>> value_;
};

// Options are finite, rates and decays not below 0, betas in [0, 1), and nesterov needs a momentum, as in PyTorch.
struct SGDOptions {
  double lr = 1e-2;
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  std::string name = "sgd";  // of its state: "sgd.m.fc1.weight"
};

// PyTorch's form: m = momentum * m + (g + weight_decay * w); w = w - lr * m (nesterov: w - lr * (g + momentum * m)).
class SGD {
 public:
  SGD(std::vector<Parameter> parameters, SGDOptions options);
  // grads as of grad(loss, parameters): one for each parameter.
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  SGDOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, momentum_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;     // weight decay apart from the gradient (AdamW)
  std::string name = "adam";  // of its state: "adam.m.fc1.weight", "adam.v.fc1.weight", "adam.step"
};

// Kingma and Ba, "Adam: a method for stochastic optimization" (2015), with bias correction.
class Adam {
 public:
  Adam(std::vector<Parameter> parameters, AdamOptions options);
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  AdamOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, first_, second_;
  Parameter count_;
};

}  // namespace karez::optim
