// Keeps a flag and a process id for each thread.
#include "karez/data/stages/stage_scope.h"

namespace karez::data {

namespace {
thread_local bool executes_stage = false;
thread_local std::atomic<int> process{0};
}  // namespace

bool in_stage() { return executes_stage; }
std::atomic<int>& awaited_process() { return process; }
StageScope::StageScope() : outer_(executes_stage) { executes_stage = true; }
StageScope::~StageScope() { executes_stage = outer_; }

}  // namespace karez::data
