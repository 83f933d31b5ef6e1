// Gives clients access to the variables of a session: locks, reads and writes.
#include "karez/runtime/variable_lock.h"

#include "karez/runtime/actor/host_copy.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/variable_store.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

struct VariableLock::Shard {
  std::shared_ptr<Variable> variable;
  Device* device;
  View view;
};

VariableLock::VariableLock(std::shared_ptr<LaunchRecord> record, std::string_view name, std::vector<Shard> parts)
    : record_(std::move(record)),
      name_(name),
      parts_(std::move(parts)) {}

VariableLock::VariableLock(VariableLock&&) noexcept = default;

VariableLock::~VariableLock() {
  if (record_ == nullptr) return;
  record_->session->release_variable_lock(*record_);
}

void VariableLock::wait() const {
  Session& session = *record_->session;
  std::unique_lock lock(session.mutex_);
  session.wait_over(lock, [&] { return record_->granted || record_->over || session.broken(); });
}

std::vector<HostArray> VariableLock::read() const {
  wait();
  std::vector<HostArray> out;
  for (const Shard& part : parts_) {
    std::vector<std::byte> staged(static_cast<std::size_t>(part.view.bytes()));
    part.device->read(staged.data(), part.variable->memory.data(), part.view.bytes());
    out.emplace_back(part.view.type());
    copy_tensor(out.back().bytes(), out.back().view(), staged.data(), part.view);
  }
  return out;
}

void VariableLock::write(const std::vector<HostArray>& values) const {
  require(values.size() == parts_.size(), "variable '", name_, "': expected one value for each of its ", parts_.size(),
          " parts, got ", values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i].type() == parts_[i].view.type(), "variable '", name_, "': expected a value of type ",
            parts_[i].view.type(), ", got ", values[i].type());
  wait();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Shard& part = parts_[i];
    std::byte* bytes = part.variable->memory.data();
    std::vector<std::byte> staged(static_cast<std::size_t>(part.view.bytes()));
    part.device->read(staged.data(), bytes, part.view.bytes());  // keeps the bytes between strided elements
    copy_tensor(staged.data(), part.view, values[i].bytes(), values[i].view());
    part.device->write(bytes, staged.data(), part.view.bytes());
  }
}

bool Session::has_variable(std::string_view name, const PlanDevice& d) const {
  return variables_->find({device_name(d), std::string(name)}) != nullptr;
}

void Session::forget_variable(std::string_view name) {
  if (is_forked_child()) return;
  variables_->forget(name);
}

VariableLock Session::lock_variable(std::string_view name, const std::vector<std::pair<PlanDevice, View>>& parts,
                                    bool writes) {
  auto record = std::make_shared<LaunchRecord>();
  std::vector<VariableLock::Shard> shards;
  for (const auto& [d, view] : parts) {
    const std::shared_ptr<Variable>& variable = variables_->at(d, name);
    const Variable& v = *variable;
    require(view.bytes() <= v.memory.bytes(), "variable '", name, "' is stored as ", v.layout, " in ", v.memory.bytes(),
            " bytes; ", view, " takes ", view.bytes());
    shards.push_back({variable, &device(d), view});
    record->own_accesses.push_back({&v, writes});
  }
  sort_accesses(record->own_accesses);
  record->accesses = &record->own_accesses;
  record->end.kind = Mail::Kind::unlock;
  record->end.payload = record.get();
  queue_variable_lock(record);
  return {std::move(record), name, std::move(shards)};
}

HostArray Session::read_variable(std::string_view name, const PlanDevice& d, const View& view) {
  return lock_variable(name, {{d, view}}, false).read()[0];
}

void Session::write_variable(std::string_view name, const PlanDevice& d, const View& view, const HostArray& value) {
  lock_variable(name, {{d, view}}, true).write({value});
}

}  // namespace karez::runtime
