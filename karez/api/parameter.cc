// Implements Parameter: names, sites and initial values.
#include "karez/api/parameter.h"

#include <map>
#include <memory>
#include <mutex>

#include "karez/api/namespace.h"
#include "karez/api/trace/variable_sites.h"

namespace karez {
namespace {

// The number of parameters that this thread has made, by name.
thread_local std::map<std::string, int> name_counts;

}  // namespace

std::string next_site() { return cat("#", thread_sites()->next++); }
void restart_sites() { thread_sites()->restart(); }

std::shared_ptr<const Parameter::Info> Parameter::checked(std::shared_ptr<Info> info) {
  const std::string& name = info->name();
  require(info->init != nullptr, "parameter '", name, "' has no initialiser");
  for (auto size : info->type.shape)
    require(size >= 1, "parameter '", name, "' is ", info->type, "; its sizes must be at least 1");
  info->type.bytes();  // throws if the product of the sizes overflows
  return info;
}

Parameter::Parameter(std::string name, TensorType type, Initialiser init, std::string site) {
  require(!name.empty(), "a parameter ", type, " has an empty name");
  std::shared_ptr<Info> info(new Info{std::move(type), std::move(site), nullptr, {}, std::move(init)});
  {
    Sites& sites = *thread_sites();
    std::lock_guard lock(sites.mutex);
    info->copy = sites.parameter_counts[info->site]++;
  }
  info->set_name(std::move(name));
  info_ = checked(std::move(info));
}

Parameter::Parameter(std::string prefix, const Parameter& base_parameter, TensorType type, Initialiser init)
    : info_(checked(
          std::shared_ptr<Info>(new Info{std::move(type), prefix, base_parameter.info_, prefix, std::move(init)}))) {}

void Parameter::Info::set_name(std::string name) const {
  require(name.find('#') == name.npos, "a parameter is named '", name,
          "'; '#' is reserved for numbering parameters with the same name");
  ordinal = name_counts[name]++;
  names.push_back(std::move(name));
}

const std::string& Parameter::Info::name() const {
  if (base_parameter == nullptr) {
    std::lock_guard lock(mutex);
    return names.back();
  }
  std::string current = cat(prefix, ".", base_parameter->name());
  std::lock_guard lock(mutex);
  if (names.empty() || names.back() != current) set_name(std::move(current));
  return names.back();
}

const std::string& Parameter::name() const { return info_->name(); }

void Parameter::set_name(std::string name) const {
  std::lock_guard lock(info_->mutex);
  if (info_->names.back() != name) info_->set_name(std::move(name));
}

std::string Parameter::origin() const {
  std::string out;
  const Info* info = info_.get();
  for (; info->base_parameter != nullptr; info = info->base_parameter.get()) out += cat(info->prefix, " of ");
  return out + info->site + (info->copy > 0 ? cat(".", info->copy) : "");
}

int Parameter::ordinal() const {
  name();  // updates the name, which may have changed
  std::lock_guard lock(info_->mutex);
  return info_->ordinal;
}

std::uint64_t Parameter::writes() const { return info_->writes.load(std::memory_order_relaxed); }
void Parameter::count_write() const { info_->writes.fetch_add(1, std::memory_order_relaxed); }

Parameter Parameter::of(const Identity& identity) {
  Parameter out;
  out.info_ = std::static_pointer_cast<const Info>(identity.lock());
  return out;
}

Parameter::Info::~Info() {
  for (const auto& callback : on_destroy) callback();
}

Initialiser Parameter::init() const {
  std::lock_guard lock(info_->mutex);
  return info_->init;
}

void Parameter::set_initial_value(const HostArray& value) const {
  if (!value.valid() || value.type() != type())
    fail(ErrorKind::type, "parameter '", name(), "' is ", type(), ", not ",
         value.valid() ? print(value.type()) : "an uninitialised array");
  Initialiser init = value_init(value);
  std::lock_guard lock(info_->mutex);
  info_->init = std::move(init);
}

void Parameter::on_destroy(std::function<void()> callback) const {
  std::lock_guard lock(info_->mutex);
  info_->on_destroy.push_back(std::move(callback));
}

std::vector<Parameter> Parameter::buffers_of_model() const {
  const auto buffers = [&] {
    std::lock_guard lock(info_->mutex);
    return info_->buffers;
  }();
  return buffers ? buffers() : std::vector<Parameter>();
}

void Parameter::set_model_buffers(std::function<std::vector<Parameter>()> buffers) const {
  std::lock_guard lock(info_->mutex);
  info_->buffers = std::move(buffers);
}

}  // namespace karez
