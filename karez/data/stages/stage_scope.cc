// Keeps a flag, a process id and a time for each thread.
#include "karez/data/stages/stage_scope.h"

namespace karez::data {

namespace {
thread_local bool executes_stage = false;
thread_local std::atomic<int> process{0};
thread_local RemoteTime remote;
}  // namespace

bool in_stage() { return executes_stage; }
std::atomic<int>& awaited_process() { return process; }
RemoteTime& remote_time() { return remote; }
StageScope::StageScope() : outer_(executes_stage) { executes_stage = true; }
StageScope::~StageScope() { executes_stage = outer_; }

}  // namespace karez::data
