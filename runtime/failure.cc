// Failing a launch: its error, and the mark that poisons the rest.
#include "runtime/failure.h"

#include <exception>
#include <new>

#include "runtime/loaded.h"

namespace karez::runtime {

namespace {
// "net.cc:12" of "matmul at net.cc:12".
std::string line_of(const std::string& where) {
  const std::size_t at = where.rfind(" at ");
  return at == std::string::npos ? "" : where.substr(at + 4);
}
}  // namespace

Error thrown() {
  try {
    throw;
  } catch (const Error& error) { return error; } catch (const std::bad_alloc&) {
    return {ErrorKind::device, "out of host memory"};
  } catch (const std::exception& error) { return Error(error.what()); } catch (const std::string& text) {
    return Error(text);
  } catch (const char* text) { return Error(text); } catch (...) {
    return Error("something was thrown that is no std::exception");
  }
}

void fail_launch(Loaded& loaded, const ActorState& actor, const Error& cause, const std::string& where) {
  LaunchRecord* record = loaded.record(actor.launch);
  const PlanDevice& device = loaded.plan.devices[loaded.plan.stream(actor.actor->stream).device];
  std::string text =
      cat(where.empty() ? "" : cat(where, ": "), cause.what(), " [", record == nullptr ? "between launches" : cat("launch ", record->ticket),
          ", actor '", actor.actor->name, "', device ", device_name(device), "]");
  const Error error(cause.kind, text, cause.where.empty() ? line_of(where) : cause.where);
  if (record == nullptr) throw error;
  {
    std::lock_guard lock(record->mutex);
    if (!record->error) record->error = error;
  }
  std::int64_t first = loaded.poisoned.load(std::memory_order_relaxed);
  while (first > actor.launch && !loaded.poisoned.compare_exchange_weak(first, actor.launch, std::memory_order_relaxed)) continue;
}

}  // namespace karez::runtime
