// Optimisers. A step adds the updates of the parameters and of the optimiser's state to the program that is being
// traced.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "karez/api/tensor.h"

namespace karez::optim {

// A learning rate that the host may change between launches. The rate is an input, not a constant, of every function
// that uses it in a step. Changing it therefore does not cause a recompilation.
class Rate {
 public:
  explicit Rate(double value);
  double get() const { return *value_; }
  void set(double value);  // finite and at least 0
  // Returns the rate as a scalar of the current trace, with this name and dtype.
  ValueId read(const std::string& name, DType dtype) const;

 private:
  std::shared_ptr<std::atomic<double>> value_;
};

// Options of SGD. For all optimisers, options must be finite, rates and decays must be at least 0, and betas must be in
// [0, 1). As in PyTorch, nesterov requires a momentum above 0.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  std::string name = "sgd";  // prefix of state names: "sgd.m.fc1.weight"; SGD without momentum has no state
};

// Stochastic gradient descent in PyTorch's form: m = momentum * m + (g + weight_decay * w); w = w - lr * m (nesterov:
// w - lr * (g + momentum * m)).
class SGD {
 public:
  SGD(std::vector<Parameter> parameters, SGDOptions options);
  // Takes the gradients that grad(loss, parameters) returns, one for each parameter. A parameter is not updated if the
  // loss does not depend on it or if its gradient is Tensor(); its state is not updated either. This applies to every
  // optimiser.
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  SGDOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, momentum_;
};

// Options of Adam and AdamW.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;     // weight decay is not part of the gradient (AdamW)
  std::string name = "adam";  // prefix of state names: "adam.m.fc1.weight", "adam.v.fc1.weight", "adam.step"
};

// Adam with bias correction: Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
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

// Options of AdamW.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  std::string name = "adamw";
};
// Adam with decoupled weight decay, which bypasses the moments: w = w - lr * (step + weight_decay * w). Loshchilov and
// Hutter, 2019.
class AdamW : public Adam {
 public:
  AdamW(std::vector<Parameter> parameters, AdamWOptions options);
};

// Options of RMSprop.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
  // Prefix of state names: "rmsprop.v.fc1.weight"; also "rmsprop.m..." with momentum, and "rmsprop.mean..." if centred.
  std::string name = "rmsprop";
};
// RMSprop in PyTorch's form: v = alpha * v + (1 - alpha) * g^2; w = w - lr * g / (sqrt(v) + eps). If centred, it uses
// the variance v - mean^2 instead of v, where mean is the running mean of g. With momentum: m = momentum * m + g /
// (sqrt(v) + eps); w = w - lr * m.
class RMSprop {
 public:
  RMSprop(std::vector<Parameter> parameters, RMSpropOptions options);
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  RMSpropOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, square_, mean_, momentum_;
};

// Options of Adagrad.
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0;
  double initial = 0;  // initial value of the sum of squares
  double eps = 1e-10;
  std::string name = "adagrad";  // prefix of state names: "adagrad.sum.fc1.weight", "adagrad.step"
};
// Adagrad in PyTorch's form: s = s + g^2; w = w - lr / (1 + step * lr_decay) * g / (sqrt(s) + eps), where step counts
// from 0. Duchi, Hazan and Singer, 2011.
class Adagrad {
 public:
  Adagrad(std::vector<Parameter> parameters, AdagradOptions options);
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  AdagradOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, sum_;
  Parameter count_;
};

// Options of Lion.
struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  std::string name = "lion";  // prefix of state names: "lion.m.fc1.weight"
};
// Lion: w = w - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w); m = beta2 * m + (1 - beta2) * g. Chen et
// al., 2023.
class Lion {
 public:
  Lion(std::vector<Parameter> parameters, LionOptions options);
  void step(const std::vector<Tensor>& grads, SourceLine where = SourceLine::current());
  void set_lr(double lr) { rate_.set(lr); }
  double lr() const { return rate_.get(); }

 private:
  LionOptions options_;
  Rate rate_;
  std::vector<Parameter> parameters_, momentum_;
};

// The result of clip_by_global_norm.
struct Clipped {
  std::vector<Tensor> grads;
  Tensor norm;  // before clipping
};
// Limits the norm of all gradients, taken as one vector, to max_norm: multiplies each gradient by min(1, max_norm /
// (norm + 1e-6)), as in PyTorch.
Clipped clip_by_global_norm(const std::vector<Tensor>& grads, double max_norm,
                            SourceLine where = SourceLine::current());

// Exponential moving averages of parameters: ema = decay * ema + (1 - decay) * w, named "ema.fc1.weight". The initial
// averages are the values of the parameters at the first update.
class EMA {
 public:
  EMA(std::vector<Parameter> parameters, double decay, std::string name = "ema");
  void update(SourceLine where = SourceLine::current());  // call in a traced function, after the optimiser's step
  const std::vector<Parameter>& averages() const { return averages_; }

 private:
  double decay_;
  std::string name_;
  std::vector<Parameter> parameters_, averages_;
  Parameter count_;
};

// A learning rate as a function of the step; steps count from 0. Calling `adam.set_lr(schedule(step))` before each
// launch does not cause a recompilation.
using Schedule = std::function<double(std::int64_t)>;
Schedule constant_schedule(double lr);
// Starts at lr and multiplies the rate by `factor` at every multiple of `every` steps.
Schedule step_schedule(double lr, std::int64_t every, double factor);
// Rises linearly from 0 to lr in `warmup` steps, falls by half a cosine to min_lr at step `total`, and is constant
// afterwards; Loshchilov and Hutter, 2017.
Schedule cosine_schedule(double lr, std::int64_t total, std::int64_t warmup = 0, double min_lr = 0);
// Like cosine_schedule, but decreases linearly.
Schedule linear_schedule(double lr, std::int64_t total, std::int64_t warmup = 0, double min_lr = 0);

}  // namespace karez::optim
