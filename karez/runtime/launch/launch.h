// Handles for users of a session: the future of a launch, and the results of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Session;
struct DeviceValue;
struct LaunchRecord;

// One output of a launch, stored on its devices. Copies of a Result share the bytes, which are kept until the last copy
// is destroyed. A Result may outlive the Session, but after that it may only be destroyed.
class Result {
 public:
  Result() = default;
  bool done() const;                     // true if the launch is over
  void wait() const;                     // waits for the launch; rethrows its error
  HostArray read() const;                // waits, and returns the whole value, assembled from its parts
  std::vector<HostArray> local() const;  // waits, and returns each device's part, sorted by device
  // Waits, and returns the bytes of a part that is the whole value, without a copy. Null if no part is the whole value.
  std::shared_ptr<const std::byte> bytes() const;

 private:
  friend class Launch;
  friend class Session;
  Result(std::shared_ptr<LaunchRecord> record, std::shared_ptr<const DeviceValue> value)
      : record_(std::move(record)),
        value_(std::move(value)) {}
  std::shared_ptr<LaunchRecord> record_;
  std::shared_ptr<const DeviceValue> value_;
};
using Results = std::vector<std::pair<std::string, Result>>;

// The part of a user's value for one device.
struct DeviceShard {
  PlanDevice place;
  std::vector<std::int64_t> begin;  // index of the part's first element in the whole value
  Shape shape;
  HostArray value;
};

// The future of one launch. Copies share its state. A Launch must not outlive the Session.
class Launch {
 public:
  void wait() const;  // rethrows the launch's first error, with its kind, actor, device and source line
  bool done() const;
  std::uint64_t ticket() const;
  std::size_t results() const { return values_->size(); }
  Result result(std::size_t i) const;          // in the order of the plan's fetches; does not wait
  Result result(std::string_view name) const;  // an unknown name is an error that lists the names
  std::optional<std::size_t> index_of(std::string_view name) const;  // nullopt if there is no such output
  HostArray output(std::string_view name) const { return result(name).read(); }
  std::vector<std::pair<std::string, HostArray>> outputs() const;  // waits, and reads all results
  Launch without_results() const;                                  // a handle that does not keep the results

 private:
  friend class Session;
  using DeviceValues = std::vector<std::shared_ptr<DeviceValue>>;
  Launch(std::shared_ptr<LaunchRecord> record, std::shared_ptr<const DeviceValues> values)
      : record_(std::move(record)),
        values_(std::move(values)) {}
  std::shared_ptr<LaunchRecord> record_;
  std::shared_ptr<const DeviceValues> values_;
};

}  // namespace karez::runtime
