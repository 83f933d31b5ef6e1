// Keeps a flag for each thread.
#include "karez/data/stages/stage_scope.h"

namespace karez::data {

namespace {
thread_local bool executes_stage = false;
}

bool in_stage() { return executes_stage; }
StageScope::StageScope() : outer_(executes_stage) { executes_stage = true; }
StageScope::~StageScope() { executes_stage = outer_; }

}  // namespace karez::data
