// Tests of the normalisation of bytes on each instruction set.
#include "karez/data/highway_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "karez/device/test_highway.h"

namespace karez::data {
namespace {

TEST(ByteNormalisation, EqualsTheDivisionsBitForBit) {
  std::mt19937 random(7);
  std::vector<std::pair<float, float>> choices = {{0, 1},           {0.2860f, 0.3530f}, {0.5f, 0.5f}, {-3, 1e-6f},
                                                  {0.1307f, -0.3f}, {0.4f, 1e-38f},     {0, 3e38f},   {1e30f, 1e-30f}};
  for (int i = 0; i < 200; ++i)
    choices.emplace_back(std::uniform_real_distribution<float>(-1, 1)(random),
                         std::uniform_real_distribution<float>(0.01f, 2)(random));
  std::vector<std::uint8_t> bytes(1000);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  device::on_every_instruction_set([&](const char* set) {
    for (const auto& [mean, deviation] : choices) {
      const ByteNormalisation normalisation(mean, deviation);
      for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                               std::size_t{784}, bytes.size()}) {
        std::vector<float> out(size + 1, 42), expected(size + 1, 42);
        for (std::size_t i = 0; i < size; ++i) expected[i] = (static_cast<float>(bytes[i]) / 255.0f - mean) / deviation;
        normalisation.apply(std::span(bytes).first(size), out.data());
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), (size + 1) * sizeof(float)), 0)
            << mean << " " << deviation << " size " << size << " on " << set;
      }
    }
  });
}

}  // namespace
}  // namespace karez::data
