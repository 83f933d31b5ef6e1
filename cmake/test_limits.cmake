# Sets the time limits of tests that may take longer than ctest's --timeout; ctest reads them after the list of tests. These tests also start first, so that none runs alone at the end.
set(times $ENV{KAREZ_TIME_LIMITS})  # a factor for all limits, for sanitizers and busy machines
if(NOT times)
  set(times 1)
endif()

# limit(SECONDS tests...)
function(limit seconds)
  math(EXPR limit "${seconds} * ${times}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit} COST ${seconds})
endfunction()

limit(300
  passes_test:FitMemory.SmallProgramsGetTheFastestLayoutsThatFitAndAreRejectedIfNoneFit
  runtime_test:Collectives.ABrokenLinkFailsAllLaunchesInFlightAndAReloadRestoresTheSession
  system_test:Decoder.TrainingGivesTheSameLossesOnEveryMeshWithin1e10
  system_test:MemoryCaps.ZeroByRulesIsNotFasterInTheSameMemory
  system_test:Pipelines.ManyLaunchesWithRandomDelaysKeepTheOrderOfCollectivesInVirtualTime
  system_test:Pipelines.ManyLaunchesWithRandomDelaysKeepTheOrderOfCollectivesAndTheLosses
  system_test:Transformer.TrainingInF64IsEqualOnEveryMeshWithin1e10)
