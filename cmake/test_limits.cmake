# Read by ctest after the tests: which may take longer than its --timeout. They also begin first, so that none is left for the end.
set(times $ENV{KAREZ_TIME_LIMITS})  # all limits are so many times as long: for sanitizers and busy machines
if(NOT times)
  set(times 1)
endif()

# limit(SECONDS tests...)
function(limit seconds)
  math(EXPR limit "${seconds} * ${times}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit} COST ${seconds})
endfunction()

limit(300
  passes_test:FitMemory.RefusesSmallProgramsOnlyWhereNoLayoutFitsAndTakesTheFastestThatDoes
  runtime_test:Collectives.ABrokenLinkEndsAllLaunchesUnderWayWithItsErrorAndAReloadHeals
  system_test:Decoder.TrainingIsTheSameOnEveryMeshTo1e10
  system_test:MemoryCaps.NoZeroByHandIsFasterInTheSameMemory
  system_test:Pipelines.ManyLaunchesWithRandomDelaysKeepOneOrderOnEveryMemberInVirtualTime
  system_test:Pipelines.ManyLaunchesWithRandomDelaysKeepOneOrderOnEveryMemberAndTheirLosses
  system_test:Transformer.TrainingInF64IsTheSameOnEveryMeshTo1e10)
