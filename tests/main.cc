// main of every test binary: GTest's, which leaves the user's cache of plans alone and plans alike on every machine.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int count, char** words) {
  ::setenv("KAREZ_CACHE", "off", 0);
  ::setenv("KAREZ_COSTS", "default", 0);
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
