// Makes launches: checks their inputs, creates their results, and waits for capacity.
#include <algorithm>
#include <utility>

#include "karez/base/suggest_names.h"
#include "karez/runtime/current_error.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/profile/event_recorder.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {
namespace {

// Returns the index of the plan's input with this name.
std::size_t find_input(const LoadedPlan& loaded, std::string_view name) {
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    if (loaded.inputs[i].layout->name == name) return i;
  fail("plan '", loaded.plan.name, "' has no input '", name, "'; ",
       suggest_names(name, loaded.inputs, [](const PlanBinding& b) { return b.layout->name; }));
}

std::string where_text(const PlanBinding& input) { return input.where.empty() ? "" : cat(" (", input.where, ")"); }

}  // namespace

// Stores an input in the record. A launch that takes the result of a running launch begins after that launch.
void Session::feed(LaunchRecord& record, std::size_t input, const LaunchInput& value) {
  const LoadedPlan& loaded = *record.loaded;
  const ShardLayout& required = *loaded.inputs[input].layout;
  const std::string& name = required.name;
  if (const Feed* feed = std::get_if<Feed>(&value)) {
    require(feed->source != nullptr, "input '", name, "' is fed with a null source");
    require(feed->source->type() == required.type, "input '", name, "' is ", required.type, ", but is fed with ",
            feed->source->type(), where_text(loaded.inputs[input]));
    record.feeds[input] = *feed;
    record.may_block = record.may_block || feed->source->may_block();
    return;
  }
  const auto& result = std::get<Result>(value);
  if (record.arrays.empty()) record.arrays.resize(loaded.inputs.size());
  require(result.value_ != nullptr, "input '", name, "' is fed with a null result");
  require(record.feeds[input].source == nullptr && record.arrays[input] == nullptr, "input '", name, "' is fed twice");
  const ShardLayout& provided = *result.value_->layout;
  require(result.record_->session == this, "input '", name, "' is fed with a result of another session");
  require(provided.type == required.type, "input '", name, "' is ", required.type, ", but is fed with ", provided.type,
          where_text(loaded.inputs[input]));
  if (provided.shards != required.shards)
    fail("input '", name, "' is read as ", print(required), ", but is fed with a result stored as ", print(provided),
         where_text(loaded.inputs[input]));
  record.arrays[input] = result.value_;
  std::lock_guard lock(mutex_);
  const bool failed = result.record_->over && result.record_->error;
  // Other ranks may already have made a launch that has an op. So it is also made here, and poisoned on all ranks.
  if (!result.record_->over || (failed && record.op != 0)) record.producers.push_back(result.record_);
  else if (failed)
    throw Error(result.record_->error->kind,
                cat("input '", name, "' is a result of a launch that failed: ", result.record_->error->what()),
                result.record_->error->where);
}

template <class Act> Launch Session::fail_ranks_on_error(std::uint64_t op, Act launch) {
  try {
    return launch();
  } catch (...) {
    if (op != 0) {
      fail_ranks(current_error());
      failure_reported_ = true;
    }
    throw;
  }
}

std::vector<std::string> Session::input_names(int plan) const {
  std::vector<std::string> names;
  for (const PlanBinding& input : find(plan)->inputs) names.push_back(input.layout->name);
  return names;
}

Launch Session::launch(int plan, const Feeds& feeds, const Results& arrays, std::uint64_t op) {
  return fail_ranks_on_error(op, [&] {
    check_open();
    const std::shared_ptr<LoadedPlan> loaded = find(plan);
    std::vector<LaunchInput> values;
    values.reserve(feeds.size() + arrays.size());
    NumberedInputs inputs;
    for (const auto& [name, feed] : feeds) inputs.emplace_back(find_input(*loaded, name), &values.emplace_back(feed));
    for (const auto& [name, array] : arrays)
      inputs.emplace_back(find_input(*loaded, name), &values.emplace_back(array));
    return try_launch(loaded, plan, inputs, op);
  });
}

Launch Session::launch_in_order(int plan, const std::vector<LaunchInput>& inputs, std::uint64_t op) {
  return fail_ranks_on_error(op, [&] {
    check_open();
    const std::shared_ptr<LoadedPlan> loaded = find(plan);
    require(inputs.size() == loaded->inputs.size(), "plan '", loaded->plan.name, "' has ", loaded->inputs.size(),
            " inputs, but is launched with ", inputs.size());
    NumberedInputs numbered;
    numbered.reserve(inputs.size());
    for (const LaunchInput& input : inputs) numbered.emplace_back(numbered.size(), &input);
    return try_launch(loaded, plan, numbered, op);
  });
}

// Another thread may unload the plan at the same time.
Launch Session::try_launch(const std::shared_ptr<LoadedPlan>& loaded_plan, int plan, const NumberedInputs& inputs,
                           std::uint64_t op) {
  LoadedPlan& loaded = *loaded_plan;
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->loaded = &loaded;
  record->op = op;
  record->feeds.resize(loaded.inputs.size());
  for (const auto& [number, value] : inputs) feed(*record, number, *value);
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i)
    require(record->feeds[i].source != nullptr || (!record->arrays.empty() && record->arrays[i] != nullptr), "input '",
            loaded.inputs[i].layout->name, "' (", loaded.inputs[i].layout->type, ") is not fed");
  auto outputs = std::make_shared<DeviceValues>();
  outputs->reserve(loaded.outputs.size());
  record->targets.reserve(2 * loaded.outputs.size());
  for (const PlanBinding& output : loaded.outputs) {
    outputs->push_back(std::make_shared<DeviceValue>(output.layout, options_.poison));
    for (const Memory& part : outputs->back()->memory) record->targets.push_back(part.data());
  }
  record->outputs = outputs;
  record->accesses = &loaded.accesses;

  FinishedLaunches finished_launches;  // destroyed after unlocking
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return has_capacity(); });
  require_open();
  require(loaded_.count(plan) > 0, "plan ", plan, " was unloaded before it could be launched");
  throw_failure(lock);
  if (failures_.data_failure() && control_ == nullptr) throw_data_failure(lock);
  finished_launches = drop_finished();
  const std::int64_t now = ticks();
  idle_clock_->launched(now);
  for (const auto& recorder : recorders_) recorder->add_launch({launches_->next_ticket(), plan, now});
  record->habit = loaded.habit;
  record->queued_at = record->made_at = now;
  Worker* const worker = take_over(*record);
  queue(record, worker);
  lock.unlock();
  if (worker != nullptr) run_launch(*worker, *record);
  return {std::move(record), std::move(outputs)};
}

// Called on threads of clients, because freeing large arrays would delay a worker.
FinishedLaunches Session::drop_finished() {
  // After a failure, a queued send to another rank may still read the inputs of its launch until the links are closed.
  if (broken() || (failures_.failure() && options_.peers != nullptr)) return {};
  return launches_->drop_finished();
}

void Session::wait_for_capacity() {
  std::unique_lock lock(mutex_);
  wait_over(lock, [&] { return has_capacity(); });
  const auto& data_failure = failures_.data_failure();
  if (control_ != nullptr && !failures_.failure() && data_failure &&
      launches_->launched() >= data_failure->index + LaunchTable::report_within)
    throw_data_failure(lock);
}

bool Session::has_capacity() const { return launches_->has_capacity(control_ != nullptr); }

void Session::queue(std::shared_ptr<LaunchRecord> record, const Worker* serving) {
  record->session = this;
  record->mail.kind = Mail::Kind::launch;
  record->mail.payload = record.get();
  launches_->add(record);
  post(record->mail, serving);  // under the lock, so that tickets are queued in order
}

void Session::post(Mail& mail, const Worker* serving) {
  if (serving != nullptr) workers_->first_box()->post_silently(&mail);
  else workers_->first_box()->post(&mail);
}

void Session::wait_idle() { await_idle({}); }

void Session::wait_all_launches() {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = launches_->next_ticket();
  wait_over(lock, [&] { return launches_->all_over_before(end); });
}

}  // namespace karez::runtime
