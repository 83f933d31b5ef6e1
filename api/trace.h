// A trace: the graph that a user's function is writing while it runs, and what the function joined to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/tensor.h"
#include "ops/build.h"

namespace karez {

// A number that the host may change between launches (a learning rate): an input of the graph, read anew for each launch.
struct HostScalar {
  std::string name;
  DType dtype = DType::f32;
  std::function<double()> value;
  const void* owner = nullptr;
  ValueId id;
};

// The state of random numbers, i64[2] = (seed, step): a variable of every world whose functions draw some.
Parameter random_counter();

struct TraceOptions {
  std::string name = "main";
  Mesh mesh = Mesh::of({});
  bool train = true;  // dropout acts, and advances the counter of random numbers
  Parameter counter = random_counter();
};

class Trace {
 public:
  Trace(const graph::OpTable& ops, TraceOptions options);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // While one lives, its trace is the thread's current one; ends may nest.
  class Scope {
   public:
    explicit Scope(Trace& trace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Trace* before_;
  };
  static Trace& current();  // none open: an error that says where tensors exist

  graph::Graph graph;
  Builder builder;

  std::uint64_t number() const { return number_; }
  bool training() const { return options_.train; }

  Tensor input(std::string_view name, const TensorType& type);
  Tensor tensor(ValueId id) const { return {id, number_, graph.type(id)}; }
  // The operand as a value here: a tensor of another trace is an error, a parameter is read, a number takes `dtype`.
  ValueId value(const Term& term, DType dtype = DType::f32);
  DType dtype_of(const Term& term) const;  // of a number: f32, i64 or bool

  // A parameter's value: what is stored, or what this trace has updated it to. One `variable` node for each and trace.
  ValueId read(const Parameter& parameter);
  void update(const Parameter& parameter, ValueId value);
  // The value of a number that changes between launches. `owner` tells two of one name apart: that is an error.
  ValueId host_scalar(const std::string& name, DType dtype, const void* owner, std::function<double()> value);
  // The state of random numbers, i64[2] = (seed, step); reading it makes this function advance the step when it is done.
  ValueId random_state();
  std::int64_t site();  // of the next random node: module path plus ordinal

  // Names the outputs "out0", "out1", ... and advances the random state if it was used.
  void finish(const std::vector<Tensor>& outputs);

  const std::vector<Parameter>& parameters() const { return parameters_; }  // in the order of Graph::variables
  const std::vector<HostScalar>& host_scalars() const { return host_scalars_; }

 private:
  TraceOptions options_;
  std::uint64_t number_;
  std::vector<Parameter> parameters_;
  std::vector<HostScalar> host_scalars_;
  std::map<std::string, int> random_nodes_;  // by module path
};

std::string print(const SourceLine& line);  // "net.cc:12"

// Runs body(trace) with new nodes stamped with the user's line; an error that does not name a line gets it.
template <class Body> auto at_line(const SourceLine& where, Body&& body);
// The same under a module's path.
template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body);

// Sets a string for as long as it lives.
class Swapped {
 public:
  Swapped(std::string& place, std::string now) : place_(place), before_(std::exchange(place, std::move(now))) {}
  ~Swapped() { place_ = std::move(before_); }
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;

 private:
  std::string& place_;
  std::string before_;
};

template <class Body> auto at_line(const SourceLine& where, Body&& body) {
  Trace* trace = nullptr;
  std::string line = print(where);
  try {
    trace = &Trace::current();
    Swapped stamp(trace->builder.where, line);
    return body(*trace);
  } catch (const Error& error) {
    std::string_view text = error.what();
    if (text.find(line) != text.npos) throw;
    const std::string path = trace == nullptr ? "" : trace->builder.path;
    base::fail(text, "\n  at ", line, path.empty() ? "" : cat(" (in ", path, ")"));
  }
}

template <class Body> auto at_line(const SourceLine& where, const std::string& path, Body&& body) {
  return at_line(where, [&](Trace& trace) {
    Swapped stamp(trace.builder.path, path);
    return at_line(where, body);  // inside of the path, so that an error names it
  });
}

}  // namespace karez
