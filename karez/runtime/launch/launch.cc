// Reads the results of launches, and waits for launches through their session.
#include "karez/runtime/launch/launch.h"

#include <algorithm>

#include "karez/base/suggest_names.h"
#include "karez/runtime/device_value.h"
#include "karez/runtime/launch/launch_record.h"
#include "karez/runtime/session.h"

namespace karez::runtime {

// ---- Launch

void Launch::wait() const { record_->session->wait(*record_); }
std::uint64_t Launch::ticket() const { return record_->ticket; }

bool Launch::done() const { return record_->session->is_over(*record_); }

Result Launch::result(std::size_t i) const {
  require(i < values_->size(), "launch ", record_->ticket, " has ", values_->size(), " results; there is no result ",
          i);
  return {record_, (*values_)[i]};
}

std::optional<std::size_t> Launch::index_of(std::string_view name) const {
  const auto found =
      std::find_if(values_->begin(), values_->end(), [&](const auto& value) { return value->layout->name == name; });
  return found == values_->end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - values_->begin()));
}

Result Launch::result(std::string_view name) const {
  if (const auto position = index_of(name)) return result(*position);
  fail("launch ", record_->ticket, " has no output '", name, "'; ",
       suggest_names(name, *values_, [](const auto& value) { return value->layout->name; }));
}

std::vector<std::pair<std::string, HostArray>> Launch::outputs() const {
  wait();
  std::vector<std::pair<std::string, HostArray>> out;
  for (const auto& value : *values_) out.emplace_back(value->layout->name, gather_shards(*value));
  return out;
}

Launch Launch::without_results() const {
  static const auto none = std::make_shared<const DeviceValues>();
  return {record_, none};
}

// ---- Result

void Result::wait() const { record_->session->wait(*record_); }

bool Result::done() const { return record_->session->is_over(*record_); }

HostArray Result::read() const {
  wait();
  return gather_shards(*value_);
}

std::vector<HostArray> Result::local() const {
  wait();
  return copy_shards(*value_);
}

std::shared_ptr<const std::byte> Result::bytes() const {
  wait();
  const ShardLayout::Shard& first = value_->layout->shards[0];
  if (first.view.shape != value_->layout->type.shape) return nullptr;
  return {value_, value_->memory[0].data()};
}

}  // namespace karez::runtime
