// The main function of every test binary. It disables the user's plan cache and plans with the same costs everywhere.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int count, char** words) {
  ::setenv("KAREZ_CACHE", "off", 0);
  ::setenv("KAREZ_COSTS", "default", 0);
  ::testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
