// Implements Array: waits for arrays, and reads them while their world exists.
#include <cstring>

#include "karez/api/namespace.h"
#include "karez/api/ranks/gather.h"
#include "karez/api/state/array_value.h"
#include "karez/api/trace/summands.h"

namespace karez {

const TensorType& Array::type() const { return ArrayValue::of(*this).spec->type; }
const Layout& Array::layout() const { return ArrayValue::of(*this).spec->layout; }
const Mesh& Array::mesh() const { return ArrayValue::of(*this).spec->mesh; }

bool Array::done() const {
  const auto world = ArrayValue::of(*this).living_world();
  return !value_->launch || value_->launch->done();
}

void Array::wait() const {
  const auto world = ArrayValue::of(*this).living_world();
  if (value_->launch) value_->launch->wait();
}

HostArray Array::read(SourceLine where) const {
  const auto world = ArrayValue::of(*this).living_world();
  const ArraySpec& spec = *value_->spec;
  if (whole_on_every_rank(*world, spec.type, spec.mesh, spec.layout)) return value_->result->read();
  world->session.wait_for_capacity();
  const runtime::Result gathered = [&] {
    WorldLock lock(*world);
    return start_gather(*world, spec, value_->result, where);
  }();
  return gathered.read();
}

std::vector<HostArray> Array::local() const {
  const auto world = ArrayValue::of(*this).living_world();
  std::vector<HostArray> parts = value_->result ? value_->result->local() : std::vector<HostArray>();
  if (!summands_of(type(), mesh(), layout())) return parts;
  for (HostArray& part : parts) {  // the part is stored as a row of an additional dimension
    HostArray summand(TensorType{part.dtype(), Shape(part.shape().begin() + 1, part.shape().end())});
    std::memcpy(summand.bytes(), part.bytes(), static_cast<std::size_t>(part.type().bytes()));
    part = std::move(summand);
  }
  return parts;
}

std::shared_ptr<const std::byte> Array::bytes() const {
  const auto world = ArrayValue::of(*this).living_world();
  return value_->result && !summands_of(type(), mesh(), layout()) ? value_->result->bytes() : nullptr;
}

}  // namespace karez
