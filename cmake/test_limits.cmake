# Read by ctest after the tests: which may take longer than its --timeout, and which need the machine alone.
set(times $ENV{KAREZ_TIME_LIMITS})  # all limits are so many times as long: for sanitizers and busy machines
if(NOT times)
  set(times 1)
endif()

# limit(SECONDS tests...)
function(limit seconds)
  math(EXPR seconds "${seconds} * ${times}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${seconds})
endfunction()
