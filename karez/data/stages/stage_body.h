// The work of a data stage, without a thread: what an act reads, what it emits and how a run starts.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/element.h"
#include "karez/plan/stages.h"

namespace karez::data {

using Emission = plan::StageResult::Emission;

// How a run starts: from the beginning of an epoch, or from a state.
struct RunStart {
  std::int64_t epoch = 0;
  StreamStateRef state = nullptr;  // null: from the beginning
  std::shared_ptr<const Element> argument =
      nullptr;  // the element from which a stage of `interleave` makes its data set
};

// The inputs whose next run an act starts, and whether the act is cancelled.
class InputStarts {
 public:
  struct Entry {
    int input = 0;
    RunStart run;
  };
  explicit InputStarts(const std::atomic<bool>* cancelled = nullptr) : cancelled_(cancelled) {}
  void add(int input, RunStart run) { entries_.push_back({input, std::move(run)}); }
  std::vector<Entry>& entries() { return entries_; }
  // Becomes true if the act must end soon; it then emits nothing. Null during a start.
  const std::atomic<bool>* cancelled() const { return cancelled_; }

 private:
  std::vector<Entry> entries_;
  const std::atomic<bool>* cancelled_;
};

// One stage. Its functions are called one at a time, possibly by different threads.
class StageBody {
 public:
  virtual ~StageBody() = default;
  // Starts a run. Every input that the run reads must be started, now or in a later act.
  virtual void start(const RunStart& run, InputStarts& starts) = 0;
  // Ends the run; the body frees the elements that it holds. Must not throw.
  virtual void stop() {}
  // The input that the next act reads; -1: none.
  virtual int next_input() const = 0;
  // If this is more than 1, the next act reads one of this many inputs, beginning with next_input(): whichever has an
  // element. `choose_input` then names it before the act.
  virtual int choices() const { return 1; }
  virtual void choose_input(int /*input*/) {}
  // Reads one element of that input, null if the input has ended, or nothing. Writes at most one element to `out`. If
  // it throws, the run ends with this error.
  virtual Emission act(Element* element, Element& out, InputStarts& starts) = 0;
  // An input that is executed by the same actor has ended with an error. Returns whether the body reports the error
  // later, in an act; otherwise it ends the run.
  virtual bool take_error(std::exception_ptr /*error*/) { return false; }
  // The bytes of arrays that the body holds between two acts. Called only if the bytes of the data set are limited.
  virtual std::int64_t held_bytes() const { return 0; }
};

}  // namespace karez::data
