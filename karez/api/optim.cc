// Implements optimisers. A step adds update nodes for each parameter; passes merge the nodes of each device into one
// call.
#include "karez/api/optim.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "karez/api/trace/shared_call.h"
#include "karez/ops/compose.h"

namespace karez::optim {
namespace {

void require_not_negative(std::string_view what, double value) {
  require(std::isfinite(value) && value >= 0, what, " is ", value, "; it must be finite and at least 0");
}

void require_beta(std::string_view what, double value) {
  require(value >= 0 && value < 1, what, " is ", value, "; it must be in [0, 1)");  // false for NaN
}

SGDOptions checked(SGDOptions options) {
  require_not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  require_not_negative(cat("optimiser '", options.name, "': momentum"), options.momentum);
  require_not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  require(!options.nesterov || options.momentum > 0, "optimiser '", options.name,
          "': nesterov requires a momentum above 0, got ", options.momentum);
  return options;
}

AdamOptions checked(AdamOptions options) {
  require_not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  require_beta(cat("optimiser '", options.name, "': beta1"), options.beta1);
  require_beta(cat("optimiser '", options.name, "': beta2"), options.beta2);
  require_not_negative(cat("optimiser '", options.name, "': eps"), options.eps);
  require_not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  return options;
}

// Checks that the list is not empty and has no duplicates; a duplicate would be updated twice in a step.
std::vector<Parameter> checked_parameters(const std::string& owner, std::vector<Parameter> parameters) {
  require(!parameters.empty(), owner, " has no parameters");
  std::set<Parameter::Identity, std::owner_less<>> identities;
  for (const Parameter& p : parameters)
    require(identities.insert(p.identity()).second, owner, ": parameter '", p.name(), "' is listed twice");
  return parameters;
}

// Creates a state variable for each parameter, with the parameter's type and an initial value of zero.
std::vector<Parameter> make_state(const std::vector<Parameter>& parameters, const std::string& prefix) {
  std::vector<Parameter> out;
  for (const auto& p : parameters) out.emplace_back(prefix, p, p.type(), constant_init(0));
  return out;
}

// Returns the indices of the parameters that have a gradient; others are not updated.
std::vector<std::size_t> indices_with_gradient(const Trace& t, const std::vector<Parameter>& parameters,
                                               const std::vector<Tensor>& grads) {
  require(grads.size() == parameters.size(), "step got ", grads.size(), " gradients for ", parameters.size(),
          " parameters");
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!t.has_gradient(grads[i])) continue;
    require(ErrorKind::type, grads[i].type == parameters[i].type(), "step: parameter '", parameters[i].name(), "' is ",
            parameters[i].type(), "; its gradient is ", grads[i].type);
    out.push_back(i);
  }
  return out;
}

}  // namespace

Rate::Rate(double value) : value_(std::make_shared<std::atomic<double>>(0)) { set(value); }

void Rate::set(double value) {
  require_not_negative("the learning rate", value);
  *value_ = value;
}

ValueId Rate::read(const std::string& name, DType dtype) const {
  return Trace::current().host_scalar(name, dtype, value_.get(), [value = value_] { return value->load(); });
}

SGD::SGD(std::vector<Parameter> parameters, SGDOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(checked_parameters(cat("optimiser '", options_.name, "'"), std::move(parameters))) {
  if (options_.momentum > 0) momentum_ = make_state(parameters_, cat(options_.name, ".m"));
}

void SGD::step(const std::vector<Tensor>& grads, SourceLine where) {
  const CallKey key("sgd", options_.momentum, options_.weight_decay, options_.nesterov);
  at_step(where, options_.name, key, parameters_, grads, {&momentum_}, nullptr, rate_.get(), [&](Trace& t) {
    const std::vector<std::size_t> updated_indices = indices_with_gradient(t, parameters_, grads);
    build::SgdOptions options{options_.momentum, options_.weight_decay, options_.nesterov};
    const ValueId apply = t.update_condition();
    for (std::size_t i : updated_indices) {
      const Parameter& parameter = parameters_[i];
      ValueId lr = rate_.read(cat(options_.name, ".lr"), parameter.dtype());
      ValueId w = t.read(parameter), g = t.value(Term(grads[i]));
      if (options_.momentum == 0) {
        if (options_.weight_decay > 0) {
          const ValueId decayed[] = {
              g, w, build::full(t.builder, parameter.dtype(), parameter.shape(), options_.weight_decay)};
          g = build::pointwise(t.builder, "x0 + x2 * x1", decayed);
        }
        const ValueId operands[] = {w, g, build::broadcast(t.builder, lr, parameter.shape(), {})};
        t.step(parameter, build::pointwise(t.builder, "x0 - x2 * x1", operands));
        continue;
      }
      auto updated = build::sgd(t.builder, w, t.read(momentum_[i]), g, lr, options, apply);
      t.update(parameters_[i], updated.w);
      t.update(momentum_[i], updated.m);
    }
  });
}

Adam::Adam(std::vector<Parameter> parameters, AdamOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(checked_parameters(cat("optimiser '", options_.name, "'"), std::move(parameters))),
      first_(make_state(parameters_, cat(options_.name, ".m"))),
      second_(make_state(parameters_, cat(options_.name, ".v"))),
      count_(cat(options_.name, ".step"), {DType::i64, {}}, constant_init(0), "step") {}

void Adam::step(const std::vector<Tensor>& grads, SourceLine where) {
  const CallKey key("adam", options_.beta1, options_.beta2, options_.eps, options_.weight_decay, options_.decoupled);
  at_step(where, options_.name, key, parameters_, grads, {&first_, &second_}, &count_, rate_.get(), [&](Trace& t) {
    const std::vector<std::size_t> updated_indices = indices_with_gradient(t, parameters_, grads);
    if (updated_indices.empty()) return;
    ValueId old_count = t.read(count_),
            count = build::add(t.builder, old_count, build::constant(t.builder, count_.type(), 1));
    t.step(count_, count);
    build::AdamOptions options{options_.beta1, options_.beta2, options_.eps, options_.weight_decay, options_.decoupled};
    const ValueId apply = t.update_condition();
    for (std::size_t i : updated_indices) {
      ValueId lr = rate_.read(cat(options_.name, ".lr"), parameters_[i].dtype());
      ValueId w = t.read(parameters_[i]), m = t.read(first_[i]), v = t.read(second_[i]), g = t.value(Term(grads[i]));
      auto updated = build::adam(t.builder, w, m, v, g, lr, count, options, apply);
      t.update(parameters_[i], updated.w);
      t.update(first_[i], updated.m);
      t.update(second_[i], updated.v);
    }
  });
}

AdamW::AdamW(std::vector<Parameter> parameters, AdamWOptions options)
    : Adam(std::move(parameters), {.lr = options.lr,
                                   .beta1 = options.beta1,
                                   .beta2 = options.beta2,
                                   .eps = options.eps,
                                   .weight_decay = options.weight_decay,
                                   .decoupled = true,
                                   .name = std::move(options.name)}) {}

namespace {

RMSpropOptions checked(RMSpropOptions options) {
  require_not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  require_not_negative(cat("optimiser '", options.name, "': alpha"), options.alpha);
  require(options.alpha <= 1, "optimiser '", options.name, "': alpha is ", options.alpha, "; it must be at most 1");
  require_not_negative(cat("optimiser '", options.name, "': eps"), options.eps);
  require_not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  require_not_negative(cat("optimiser '", options.name, "': momentum"), options.momentum);
  return options;
}

}  // namespace

RMSprop::RMSprop(std::vector<Parameter> parameters, RMSpropOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(checked_parameters(cat("optimiser '", options_.name, "'"), std::move(parameters))),
      square_(make_state(parameters_, cat(options_.name, ".v"))) {
  if (options_.centered) mean_ = make_state(parameters_, cat(options_.name, ".mean"));
  if (options_.momentum > 0) momentum_ = make_state(parameters_, cat(options_.name, ".m"));
}

void RMSprop::step(const std::vector<Tensor>& grads, SourceLine where) {
  const CallKey key("rmsprop", options_.alpha, options_.eps, options_.weight_decay, options_.momentum,
                    options_.centered);
  at_step(
      where, options_.name, key, parameters_, grads, {&square_, &mean_, &momentum_}, nullptr, rate_.get(),
      [&](Trace& t) {
        const std::vector<std::size_t> updated_indices = indices_with_gradient(t, parameters_, grads);
        Builder& b = t.builder;
        const RMSpropOptions& o = options_;
        for (std::size_t i : updated_indices) {
          const Parameter& parameter = parameters_[i];
          auto number = [&](double value) { return build::full(b, parameter.dtype(), parameter.shape(), value); };
          auto blend = [&](ValueId average, ValueId value) {  // alpha * average + (1 - alpha) * value
            return build::add(b, build::mul(b, average, number(o.alpha)), build::mul(b, value, number(1 - o.alpha)));
          };
          ValueId lr = build::broadcast(b, rate_.read(cat(o.name, ".lr"), parameter.dtype()), parameter.shape(), {});
          ValueId w = t.read(parameter), g = t.value(Term(grads[i]));
          if (o.weight_decay > 0) g = build::add(b, g, build::mul(b, w, number(o.weight_decay)));
          ValueId square = blend(t.read(square_[i]), build::mul(b, g, g)), spread = square;
          t.step(square_[i], square);
          if (o.centered) {
            ValueId mean = blend(t.read(mean_[i]), g);
            t.step(mean_[i], mean);
            spread = build::sub(b, square, build::mul(b, mean, mean));
          }
          ValueId step = build::div(b, g, build::add(b, build::sqrt(b, spread), number(o.eps)));
          if (o.momentum > 0) {
            step = build::add(b, build::mul(b, t.read(momentum_[i]), number(o.momentum)), step);
            t.step(momentum_[i], step);
          }
          t.step(parameter, build::sub(b, w, build::mul(b, lr, step)));
        }
      });
}

namespace {

AdagradOptions checked(AdagradOptions options) {
  require_not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  require_not_negative(cat("optimiser '", options.name, "': lr_decay"), options.lr_decay);
  require_not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  require_not_negative(cat("optimiser '", options.name, "': initial"), options.initial);
  require_not_negative(cat("optimiser '", options.name, "': eps"), options.eps);
  return options;
}

LionOptions checked(LionOptions options) {
  require_not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  require_beta(cat("optimiser '", options.name, "': beta1"), options.beta1);
  require_beta(cat("optimiser '", options.name, "': beta2"), options.beta2);
  require_not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  return options;
}

}  // namespace

Adagrad::Adagrad(std::vector<Parameter> parameters, AdagradOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(checked_parameters(cat("optimiser '", options_.name, "'"), std::move(parameters))),
      count_(cat(options_.name, ".step"), {DType::i64, {}}, constant_init(0), "step") {
  for (const Parameter& p : parameters_)
    sum_.emplace_back(cat(options_.name, ".sum"), p, p.type(), constant_init(options_.initial));
}

void Adagrad::step(const std::vector<Tensor>& grads, SourceLine where) {
  const CallKey key("adagrad", options_.lr_decay, options_.weight_decay, options_.eps);
  at_step(where, options_.name, key, parameters_, grads, {&sum_}, &count_, rate_.get(), [&](Trace& t) {
    const std::vector<std::size_t> updated_indices = indices_with_gradient(t, parameters_, grads);
    Builder& b = t.builder;
    if (updated_indices.empty()) return;
    const ValueId old_count = t.read(count_);
    t.step(count_, build::add(b, old_count, build::full_like(b, old_count, 1)));
    for (std::size_t i : updated_indices) {
      const Parameter& parameter = parameters_[i];
      const auto number = [&](double value) { return build::full(b, parameter.dtype(), parameter.shape(), value); };
      const ValueId lr = rate_.read(cat(options_.name, ".lr"), parameter.dtype());
      const ValueId decay[] = {lr, build::cast(b, old_count, parameter.dtype()),
                               build::full_like(b, lr, options_.lr_decay)};
      const ValueId rate = build::broadcast(b, build::pointwise(b, "x0 / (1 + x1 * x2)", decay), parameter.shape(), {});
      const ValueId w = t.read(parameter);
      ValueId g = t.value(Term(grads[i]));
      if (options_.weight_decay > 0) g = build::add(b, g, build::mul(b, w, number(options_.weight_decay)));
      const ValueId sum = build::add(b, t.read(sum_[i]), build::mul(b, g, g));
      t.step(sum_[i], sum);
      t.step(
          parameter,
          build::sub(b, w,
                     build::mul(b, rate, build::div(b, g, build::add(b, build::sqrt(b, sum), number(options_.eps))))));
    }
  });
}

Lion::Lion(std::vector<Parameter> parameters, LionOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(checked_parameters(cat("optimiser '", options_.name, "'"), std::move(parameters))),
      momentum_(make_state(parameters_, cat(options_.name, ".m"))) {}

void Lion::step(const std::vector<Tensor>& grads, SourceLine where) {
  const CallKey key("lion", options_.beta1, options_.beta2, options_.weight_decay);
  at_step(where, options_.name, key, parameters_, grads, {&momentum_}, nullptr, rate_.get(), [&](Trace& t) {
    const std::vector<std::size_t> updated_indices = indices_with_gradient(t, parameters_, grads);
    Builder& b = t.builder;
    for (std::size_t i : updated_indices) {
      const Parameter& parameter = parameters_[i];
      const auto number = [&](double value) { return build::full(b, parameter.dtype(), parameter.shape(), value); };
      const ValueId lr =
          build::broadcast(b, rate_.read(cat(options_.name, ".lr"), parameter.dtype()), parameter.shape(), {});
      const ValueId w = t.read(parameter), g = t.value(Term(grads[i])), m = t.read(momentum_[i]);
      const auto blend = [&](double beta) {
        const ValueId operands[] = {m, g, number(beta)};
        return build::pointwise(b, "x2 * x0 + (1 - x2) * x1", operands);
      };
      const ValueId direction[] = {blend(options_.beta1)};
      ValueId step = build::pointwise(b, "select(x0 > 0, 1, select(x0 < 0, -1, x0))", direction);  // NaN stays
      if (options_.weight_decay > 0) step = build::add(b, step, build::mul(b, w, number(options_.weight_decay)));
      t.step(parameter, build::sub(b, w, build::mul(b, lr, step)));
      t.step(momentum_[i], blend(options_.beta2));
    }
  });
}

Clipped clip_by_global_norm(const std::vector<Tensor>& grads, double max_norm, SourceLine where) {
  require(!grads.empty(), "clip_by_global_norm: at least one gradient is required");
  require_not_negative("clip_by_global_norm: the norm limit", max_norm);
  return at_line(where, [&](Trace& t) {
    Builder& b = t.builder;
    ValueId squares;
    for (const Tensor& grad : grads) {
      ValueId g = t.value(Term(grad)), sum = build::sum(b, build::mul(b, g, g));
      require(ErrorKind::type, !squares.valid() || b.type(squares) == b.type(sum),
              "clip_by_global_norm: all gradients must have the same dtype, got ", grads[0].type, " and ", grad.type);
      squares = squares.valid() ? build::add(b, squares, sum) : sum;
    }
    ValueId norm = build::sqrt(b, squares);
    ValueId operands[] = {norm, build::full_like(b, norm, max_norm)};
    ValueId scale = build::pointwise(b, "min(1, x1 / (x0 + 1e-6))", operands);
    Clipped out{{}, t.tensor(norm)};
    for (const Tensor& grad : grads)
      out.grads.push_back(t.has_gradient(grad) ? t.tensor(build::binary(b, "mul", t.value(Term(grad)), scale)) : grad);
    return out;
  });
}

EMA::EMA(std::vector<Parameter> parameters, double decay, std::string name)
    : decay_(decay),
      name_(std::move(name)),
      parameters_(checked_parameters(cat("average '", name_, "'"), std::move(parameters))),
      averages_(make_state(parameters_, name_)),
      count_(cat(name_, ".step"), {DType::i64, {}}, constant_init(0), "step") {
  require_beta(cat("average '", name_, "': decay"), decay_);
}

void EMA::update(SourceLine where) {
  at_line(where, name_, [&](Trace& t) {
    Builder& b = t.builder;
    ValueId old_count = t.read(count_);
    ValueId is_first = build::eq(b, old_count, build::full_like(b, old_count, 0));
    t.update(count_, build::add(b, old_count, build::full_like(b, old_count, 1)));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Shape& shape = parameters_[i].shape();
      ValueId w = t.read(parameters_[i]), average = t.read(averages_[i]);
      ValueId operands[] = {average, w, build::full(b, parameters_[i].dtype(), shape, decay_)};
      ValueId new_value = build::pointwise(b, "x2 * x0 + (1 - x2) * x1", operands);
      t.update(averages_[i], build::select(b, build::broadcast_to(b, is_first, shape), w, new_value));
    }
    return 0;
  });
}

namespace {

void check_schedule(std::string_view what, double lr, std::int64_t total, std::int64_t warmup, double min_lr) {
  require_not_negative(cat(what, ": lr"), lr);
  require_not_negative(cat(what, ": the minimum rate"), min_lr);
  require(warmup >= 0 && total > warmup, what, ": warmup must be at least 0 and below total; got warmup ", warmup,
          " and total ", total);
}

// Makes a schedule that decreases from lr to min_lr after the warm-up. `decay` maps the fraction of these steps that
// are done to a factor, from 1 at the beginning to 0 at the end.
Schedule decreasing_schedule(double lr, std::int64_t total, std::int64_t warmup, double min_lr,
                             double (*decay)(double)) {
  return [=](std::int64_t step) {
    if (step < warmup) return lr * static_cast<double>(std::max<std::int64_t>(step, 0)) / static_cast<double>(warmup);
    const double progress = std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(total - warmup));
    return min_lr + (lr - min_lr) * decay(progress);
  };
}

}  // namespace

Schedule constant_schedule(double lr) {
  require_not_negative("constant_schedule: lr", lr);
  return [lr](std::int64_t) { return lr; };
}

Schedule step_schedule(double lr, std::int64_t every, double factor) {
  require_not_negative("step_schedule: lr", lr);
  require_not_negative("step_schedule: the factor", factor);
  require(every >= 1, "step_schedule: every is ", every, "; it must be at least 1");
  return [=](std::int64_t step) {
    return lr * std::pow(factor, static_cast<double>(std::max<std::int64_t>(step, 0) / every));
  };
}

Schedule cosine_schedule(double lr, std::int64_t total, std::int64_t warmup, double min_lr) {
  check_schedule("cosine_schedule", lr, total, warmup, min_lr);
  return decreasing_schedule(lr, total, warmup, min_lr,
                             [](double progress) { return (1 + std::cos(progress * 3.14159265358979323846)) / 2; });
}

Schedule linear_schedule(double lr, std::int64_t total, std::int64_t warmup, double min_lr) {
  check_schedule("linear_schedule", lr, total, warmup, min_lr);
  return decreasing_schedule(lr, total, warmup, min_lr, [](double progress) { return 1 - progress; });
}

}  // namespace karez::optim
