// Marks threads that execute a stage, which must not begin an op of all ranks.
#pragma once

#include "karez/data/namespace.h"

namespace karez::data {

// Whether this thread executes a stage of a data set.
bool in_stage();

class StageScope {
 public:
  StageScope();
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  bool outer_;
};

}  // namespace karez::data
