// Bindings of optimisers and schedules.
#include "karez/api/optim.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

std::vector<Tensor> tensors_from(const std::vector<const Value*>& values) {
  std::vector<Tensor> out;
  for (const Value* value : values) {
    const Tensor* tensor = value->tensor();
    const bool none = std::holds_alternative<std::monostate>(value->content);  // Tensor() means no gradient
    require(tensor != nullptr || none, "a gradient must be a tensor, got a parameter");
    out.push_back(none ? Tensor() : *tensor);
  }
  return out;
}

template <class Optimiser> nb::class_<Optimiser> def_optimiser(nb::module_& m, const char* name) {
  return nb::class_<Optimiser>(m, name)
      .def("step",
           [](Optimiser& self, const std::vector<const Value*>& grads) {
             ensure_default_device();  // outside of a trace, this may be the first computation
             self.step(tensors_from(grads), user_line());
           })
      .def_prop_rw("lr", &Optimiser::lr, &Optimiser::set_lr);
}

void init_optimisers(nb::module_& m) {
  def_optimiser<optim::SGD>(m, "SGD").def(
      "__init__",
      [](optim::SGD* self, const std::vector<const Value*>& parameters, double lr, double momentum, double weight_decay,
         bool nesterov, const std::string& name) {
        new (self) optim::SGD(parameters_from(parameters), {lr, momentum, weight_decay, nesterov, name});
      },
      "parameters"_a, "lr"_a, "momentum"_a, "weight_decay"_a, "nesterov"_a, "name"_a);
  def_optimiser<optim::Adam>(m, "Adam").def(
      "__init__",
      [](optim::Adam* self, const std::vector<const Value*>& parameters, double lr, std::pair<double, double> betas,
         double eps, double weight_decay, bool decoupled, const std::string& name) {
        new (self) optim::Adam(parameters_from(parameters),
                               {lr, betas.first, betas.second, eps, weight_decay, decoupled, name});
      },
      "parameters"_a, "lr"_a, "betas"_a, "eps"_a, "weight_decay"_a, "decoupled"_a, "name"_a);
  def_optimiser<optim::RMSprop>(m, "RMSprop")
      .def(
          "__init__",
          [](optim::RMSprop* self, const std::vector<const Value*>& parameters, double lr, double alpha, double eps,
             double weight_decay, double momentum, bool centered, const std::string& name) {
            new (self)
                optim::RMSprop(parameters_from(parameters), {lr, alpha, eps, weight_decay, momentum, centered, name});
          },
          "parameters"_a, "lr"_a, "alpha"_a, "eps"_a, "weight_decay"_a, "momentum"_a, "centered"_a, "name"_a);
  def_optimiser<optim::Adagrad>(m, "Adagrad")
      .def(
          "__init__",
          [](optim::Adagrad* self, const std::vector<const Value*>& parameters, double lr, double lr_decay,
             double weight_decay, double initial, double eps, const std::string& name) {
            new (self) optim::Adagrad(parameters_from(parameters), {lr, lr_decay, weight_decay, initial, eps, name});
          },
          "parameters"_a, "lr"_a, "lr_decay"_a, "weight_decay"_a, "initial"_a, "eps"_a, "name"_a);
  def_optimiser<optim::Lion>(m, "Lion").def(
      "__init__",
      [](optim::Lion* self, const std::vector<const Value*>& parameters, double lr, std::pair<double, double> betas,
         double weight_decay, const std::string& name) {
        new (self) optim::Lion(parameters_from(parameters), {lr, betas.first, betas.second, weight_decay, name});
      },
      "parameters"_a, "lr"_a, "betas"_a, "weight_decay"_a, "name"_a);
}

}  // namespace

void init_optim(nb::module_& m) {
  init_optimisers(m);
  m.def(
      "clip_by_global_norm",
      [](const std::vector<const Value*>& grads, double max_norm) {
        const optim::Clipped clipped = optim::clip_by_global_norm(tensors_from(grads), max_norm, user_line());
        return std::pair(std::vector<Value>(clipped.grads.begin(), clipped.grads.end()), Value(clipped.norm));
      },
      "grads"_a, "max_norm"_a);
  nb::class_<optim::EMA>(m, "EMA")
      .def("__init__", [](optim::EMA* self, const std::vector<const Value*>& parameters, double decay,
                          const std::string& name) { new (self) optim::EMA(parameters_from(parameters), decay, name); })
      .def("update", [](optim::EMA& self) { self.update(user_line()); })
      .def("averages",
           [](const optim::EMA& self) { return std::vector<Value>(self.averages().begin(), self.averages().end()); });
  nb::class_<optim::Schedule>(m, "Schedule", "A learning rate as a function of the step.")
      .def(
          "__call__", [](const optim::Schedule& schedule, std::int64_t step) { return schedule(step); }, "step"_a);
  m.def("constant_schedule", &optim::constant_schedule, "lr"_a);
  m.def("step_schedule", &optim::step_schedule, "lr"_a, "every"_a, "factor"_a);
  m.def("cosine_schedule", &optim::cosine_schedule, "lr"_a, "total"_a, "warmup"_a = 0, "least"_a = 0.0);
  m.def("linear_schedule", &optim::linear_schedule, "lr"_a, "total"_a, "warmup"_a = 0, "least"_a = 0.0);
}

}  // namespace karez::python
