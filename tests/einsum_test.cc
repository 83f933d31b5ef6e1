// Tests of einsum against loops over all indices, on one device and on meshes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/expect_function.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

// Sums the products over all combinations of indices of all letters.
Numbers sum_of_products(const std::vector<std::string>& in, const std::string& out, const std::map<char, int>& sizes,
                        const std::vector<Numbers>& operands) {
  auto place = [&](const std::string& letters, const std::map<char, int>& at) {
    std::size_t index = 0;
    for (char c : letters) index = index * static_cast<std::size_t>(sizes.at(c)) + static_cast<std::size_t>(at.at(c));
    return index;
  };
  std::size_t count = 1;
  for (char c : out) count *= static_cast<std::size_t>(sizes.at(c));
  Numbers result(count, 0.0);
  std::map<char, int> at;
  for (auto [letter, size] : sizes) at[letter] = 0;
  for (bool has_more = true; has_more;) {
    double product = 1;
    for (std::size_t i = 0; i < in.size(); ++i) product *= operands[i][place(in[i], at)];
    result[place(out, at)] += product;
    has_more = false;
    for (auto& [letter, value] : at) {
      if (++value < sizes.at(letter)) {
        has_more = true;
        break;
      }
      value = 0;
    }
  }
  return result;
}

TEST(Einsum, TheResultMatchesTheSumOfProductsOverAllIndices) {
  struct Case {
    const char* subscripts;
    std::vector<std::string> in;
    std::string out;
  };
  const std::map<char, int> dimension_sizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 3}, {'Z', 2}};
  for (const Case& c : std::vector<Case>{{"ab,bc->ac", {"ab", "bc"}, "ac"},
                                         {"ab, bc", {"ab", "bc"}, "ac"},
                                         {"bacd,bace->bade", {"bacd", "bace"}, "bade"},
                                         {"ab->ba", {"ab"}, "ba"},
                                         {"abc->b", {"abc"}, "b"},
                                         {"abc->", {"abc"}, ""},
                                         {"ba", {"ba"}, "ab"},
                                         {"a,b->ba", {"a", "b"}, "ba"},
                                         {"ab,ab->ab", {"ab", "ab"}, "ab"},
                                         {"ab,ab->", {"ab", "ab"}, ""},
                                         {"abe,cb->ac", {"abe", "cb"}, "ac"},
                                         {"ab,bc,cd->da", {"ab", "bc", "cd"}, "da"},
                                         {"ab,cb,bZ->aZc", {"ab", "cb", "bZ"}, "aZc"},
                                         {"...a,...ab->...b", {"cda", "cdab"}, "cdb"},
                                         {"...a->a...", {"cda"}, "acd"},
                                         {"...ab,bc", {"dab", "bc"}, "dac"}}) {
    std::map<char, int> sizes;
    std::vector<HostArray> inputs;
    std::vector<Numbers> operands;
    for (const std::string& letters : c.in) {
      Shape shape;
      for (char letter : letters)
        sizes[letter] = dimension_sizes.at(letter), shape.push_back(dimension_sizes.at(letter));
      inputs.push_back(random_array(shape, static_cast<unsigned>(inputs.size() + 1)));
      operands.push_back(numbers_of(inputs.back()));
    }
    expect_function(
        c.subscripts,
        [&](auto in) {
          return einsum(c.subscripts, {in.begin(), in.end()});
        },
        inputs, sum_of_products(c.in, c.out, sizes, operands));
  }
}

TEST(Einsum, InvalidSubscriptsAreRejected) {
  const HostArray x = random_array({2, 3}, 1);
  auto error_for = [&](const char* subscripts, int operands) {
    return error_of(
        [&](auto in) {
          return std::vector{einsum(subscripts, {in.begin(), in.end()})};
        },
        std::vector<HostArray>(static_cast<std::size_t>(operands), x));
  };
  EXPECT_THAT(error_for("ab,bc->ac", 2), HasSubstr("einsum 'ab,bc->ac': 'b' has sizes 3 and 2"));
  EXPECT_THAT(error_for("ab,bc->ac", 1), HasSubstr("2 operands in the subscripts, but 1 given"));
  EXPECT_THAT(error_for("abc->a", 1), HasSubstr("'abc' does not match the rank of operand 0 f64[2, 3]"));
  EXPECT_THAT(error_for("aa->a", 1), HasSubstr("'a' occurs twice in 'aa'; diagonals are not supported"));
  EXPECT_THAT(error_for("a1->a", 1), HasSubstr("'1' is not a letter"));
  EXPECT_THAT(error_for("ab->ac", 1), HasSubstr("'c' of the result is not in any operand"));
  EXPECT_THAT(error_for("......ab->a", 1), HasSubstr("einsum '......ab->a'"));
  EXPECT_THAT(error_for("ab->aab", 1), HasSubstr("'a' occurs twice in 'aab'"));
}

}  // namespace
}  // namespace karez::tests
