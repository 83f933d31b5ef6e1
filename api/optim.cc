// Optimisers: one update node per parameter; the passes make one call of all that lie on a device.
#include "api/optim.h"

#include <cmath>

#include "api/inside/rooms.h"
#include "api/inside/trace.h"

namespace karez::optim {
namespace {

void not_negative(std::string_view what, double value) {
  require(std::isfinite(value) && value >= 0, what, " is ", value, "; it must be a finite number and not below 0");
}

void beta(std::string_view what, double value) {
  require(value >= 0 && value < 1, what, " is ", value, "; it must be in [0, 1)");  // false for what is not a number
}

SGDOptions checked(SGDOptions options) {
  not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  not_negative(cat("optimiser '", options.name, "': momentum"), options.momentum);
  not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  require(!options.nesterov || options.momentum > 0, "optimiser '", options.name, "': nesterov needs a momentum above 0, not ", options.momentum);
  return options;
}

AdamOptions checked(AdamOptions options) {
  not_negative(cat("optimiser '", options.name, "': lr"), options.lr);
  beta(cat("optimiser '", options.name, "': beta1"), options.beta1);
  beta(cat("optimiser '", options.name, "': beta2"), options.beta2);
  not_negative(cat("optimiser '", options.name, "': eps"), options.eps);
  not_negative(cat("optimiser '", options.name, "': weight_decay"), options.weight_decay);
  return options;
}

// State of a parameter's own type that begins with zeros.
std::vector<Parameter> state_of(const std::vector<Parameter>& parameters, const std::string& prefix) {
  std::vector<Parameter> out;
  for (const auto& p : parameters) out.emplace_back(cat(prefix, ".", p.name()), p.type(), constant_init(0));
  return out;
}

void check(const std::vector<Parameter>& parameters, const std::vector<Tensor>& grads) {
  require(grads.size() == parameters.size(), "step got ", grads.size(), " gradients for ", parameters.size(), " parameters");
  for (std::size_t i = 0; i < grads.size(); ++i)
    require(ErrorKind::type, grads[i].type == parameters[i].type(), "step: parameter '", parameters[i].name(), "' is ", parameters[i].type(),
            "; its gradient is ", grads[i].type);
}

}  // namespace

Rate::Rate(double value) : value_(std::make_shared<std::atomic<double>>(0)) { set(value); }

void Rate::set(double value) {
  not_negative("the learning rate", value);
  *value_ = value;
}

ValueId Rate::read(const std::string& name, DType dtype) const {
  return Trace::current().host_scalar(name, dtype, value_.get(), [value = value_] { return value->load(); });
}

SGD::SGD(std::vector<Parameter> parameters, SGDOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(std::move(parameters)),
      momentum_(state_of(parameters_, cat(options_.name, ".m"))) {
  require(!parameters_.empty(), "an optimiser '", options_.name, "' without parameters");
}

void SGD::step(const std::vector<Tensor>& grads, SourceLine where) {
  at_line(where, options_.name, [&](Trace& t) {
    check(parameters_, grads);
    build::SgdOptions options{options_.momentum, options_.weight_decay, options_.nesterov};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      ValueId lr = rate_.read(cat(options_.name, ".lr"), parameters_[i].dtype());
      ValueId w = t.read(parameters_[i]), m = t.read(momentum_[i]), g = t.value(Term(grads[i]));
      auto next = build::sgd(t.builder, w, m, g, lr, options);
      t.update(parameters_[i], next.w);
      t.update(momentum_[i], next.m);
    }
    return 0;
  });
}

Adam::Adam(std::vector<Parameter> parameters, AdamOptions options)
    : options_(checked(std::move(options))),
      rate_(options_.lr),
      parameters_(std::move(parameters)),
      first_(state_of(parameters_, cat(options_.name, ".m"))),
      second_(state_of(parameters_, cat(options_.name, ".v"))),
      count_(cat(options_.name, ".step"), {DType::i64, {}}, constant_init(0)) {
  require(!parameters_.empty(), "an optimiser '", options_.name, "' without parameters");
}

void Adam::step(const std::vector<Tensor>& grads, SourceLine where) {
  at_line(where, options_.name, [&](Trace& t) {
    check(parameters_, grads);
    ValueId before = t.read(count_), count = build::add(t.builder, before, build::constant(t.builder, count_.type(), 1));
    t.update(count_, count);
    build::AdamOptions options{options_.beta1, options_.beta2, options_.eps, options_.weight_decay, options_.decoupled};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      ValueId lr = rate_.read(cat(options_.name, ".lr"), parameters_[i].dtype());
      ValueId w = t.read(parameters_[i]), m = t.read(first_[i]), v = t.read(second_[i]), g = t.value(Term(grads[i]));
      auto next = build::adam(t.builder, w, m, v, g, lr, count, options);
      t.update(parameters_[i], next.w);
      t.update(first_[i], next.m);
      t.update(second_[i], next.v);
    }
    return 0;
  });
}

}  // namespace karez::optim
