// Calls of API functions outside of compiled functions. Calls of one function with equal options, on operands of equal
// types, share a graph, so that only the first call infers types and allocates nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "karez/api/trace/key_bytes.h"
#include "karez/api/trace/shared_graph.h"
#include "karez/api/trace/trace.h"

namespace karez {

// A function and its options, which together with the types of the operands determine a graph.
class CallKey {
 public:
  template <class... Options> explicit CallKey(std::string_view function, const Options&... options) {
    put(function);
    (put(options), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  requires std::is_scalar_v<T>
  void put(T value) { key::put(bytes_, value); }
  void put(const char* text) { put(std::string_view(text)); }
  void put(std::string_view text) { key::put(bytes_, text); }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const std::vector<std::int64_t>& numbers) { key::put(bytes_, std::span<const std::int64_t>(numbers)); }
  void put(const base::Attrs& attrs) { put(attrs.empty() ? std::string() : attrs.print()); }
  template <class T> void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  std::string bytes_;
};

// A graph without result, parameters and numbers.
SharedGraph shared_graph(graph::Graph graph);

// Writes the nodes of a call into the expression that was just opened for it, or uses the graph of an earlier call.
Tensor write_or_share(Trace& t, const CallKey& key, std::span<const Term* const> operands,
                      const std::function<Tensor(Trace&)>& body);

// at_line for a function whose graph depends only on the key and on the types of the operands. `body` must read the
// operands by Trace::value, must not read anything else, and must return its only result, or an uninitialised tensor if
// it only updates parameters. A null operand is absent.
template <class Body>
Tensor at_line_shared(const SourceLine& where, const CallKey& key, std::span<const Term* const> operands,
                      const Body& body) {
  if (Trace::open() != nullptr) return at_line(where, body);
  return at_line(where, [&](Trace& t) { return write_or_share(t, key, operands, std::ref(body)); });
}
// Also sets the module path of new nodes.
template <class Body>
Tensor at_line_shared(const SourceLine& where, const std::string& path, const CallKey& key,
                      std::span<const Term* const> operands, const Body& body) {
  if (Trace::open() != nullptr) return at_line(where, path, body);
  return at_line(where, path, [&](Trace& t) { return write_or_share(t, key, operands, std::ref(body)); });
}
template <class Body>
Tensor at_line_shared(const SourceLine& where, const CallKey& key, std::initializer_list<const Term*> operands,
                      const Body& body) {
  return at_line_shared(where, key, std::span(operands.begin(), operands.size()), body);
}

// The same for a step of an optimiser. `state` has lists with a variable for each parameter or none; `count` is another
// variable, or null. `body` writes the step, and throws if the number of gradients is wrong.
void at_step(const SourceLine& where, const std::string& path, const CallKey& key,
             const std::vector<Parameter>& parameters, const std::vector<Tensor>& grads,
             std::initializer_list<const std::vector<Parameter>*> state, const Parameter* count, double rate,
             const std::function<void(Trace&)>& body);

}  // namespace karez
