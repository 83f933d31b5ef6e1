// Failing a launch: the error's text, and the mark that poisons the rest.
#include "runtime/failure.h"

#include <exception>

#include "runtime/loaded.h"

namespace karez::runtime {

std::string thrown_text() {
  try {
    throw;
  } catch (const std::exception& error) { return error.what(); } catch (const std::string& text) {
    return text;
  } catch (const char* text) { return text; } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

void fail_launch(Loaded& loaded, const ActorState& actor, const std::string& what, const std::string& where) {
  LaunchRecord* record = loaded.launch.load(std::memory_order_acquire);
  const PlanDevice& device = loaded.plan.devices[static_cast<std::size_t>(loaded.plan.stream(actor.actor->stream).device.index)];
  std::string text = cat(where.empty() ? "" : cat(where, ": "), what, " [", record == nullptr ? "between launches" : cat("launch ", record->ticket),
                         ", actor '", actor.actor->name, "', device ", device_name(device), "]");
  require(record != nullptr, text);
  {
    std::lock_guard lock(record->mutex);
    if (record->error.empty()) record->error = std::move(text);
  }
  loaded.poisoned.store(true, std::memory_order_relaxed);
}

}  // namespace karez::runtime
