// Tests of globs: the matches of each element, a comparison with regular expressions, and malformed patterns.
#include "karez/base/glob.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "karez/base/error.h"

namespace karez::base {
namespace {

bool match(std::string_view pattern, std::string_view name) { return Glob(pattern).matches(name); }

std::string error_of(std::string_view pattern) {
  try {
    Glob glob(pattern);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(Glob, StarsAndQuestionMarksStayWithinOnePart) {
  EXPECT_TRUE(match("fc*.weight", "fc1.weight"));
  EXPECT_TRUE(match("fc*.weight", "fc.weight"));
  EXPECT_TRUE(match("*.weight", "fc.weight"));
  EXPECT_FALSE(match("*.weight", "block.fc.weight"));
  EXPECT_FALSE(match("*weight", "fc.weight"));
  EXPECT_FALSE(match("fc?weight", "fc.weight"));
  EXPECT_TRUE(match("fc?", "fc1"));
  EXPECT_FALSE(match("fc?", "fc"));
  EXPECT_FALSE(match("fc?", "fc12"));
  EXPECT_FALSE(match("*.weight", "fc.weights"));
  EXPECT_FALSE(match("fc", "fc1"));
  EXPECT_TRUE(match("a*b*c", "abbcc"));
}

TEST(Glob, TwoStarsCrossDots) {
  EXPECT_TRUE(match("**.weight", "a.b.c.weight"));
  EXPECT_TRUE(match("**.weight", "fc.weight"));
  EXPECT_TRUE(match("**.weight", "weight")) << "\"**.\" must also match no part";
  EXPECT_FALSE(match("**.weight", "a.overweight"));
  EXPECT_TRUE(match("**weight", "a.overweight"));
  EXPECT_TRUE(match("a.**.z", "a.z"));
  EXPECT_TRUE(match("a.**.z", "a.b.c.z"));
  EXPECT_FALSE(match("a.**.z", "a.b.cz"));
  EXPECT_TRUE(match("a**z", "a.b.z"));
  EXPECT_TRUE(match("**", "a.b"));
  EXPECT_TRUE(match("**", ""));
}

TEST(Glob, APatternThatNamesAModuleMatchesAllNamesBelowIt) {
  EXPECT_TRUE(match("block0", "block0.fc.weight"));
  EXPECT_TRUE(match("block0.fc", "block0.fc.weight"));
  EXPECT_TRUE(match("block*", "block12.fc.weight"));
  EXPECT_FALSE(match("block0", "block01.fc"));
  EXPECT_FALSE(match("block0", "net.block0.fc"));
  EXPECT_FALSE(match("fc.weight", "fc")) << "a pattern must not match the name of an enclosing module";
  EXPECT_FALSE(match("a*", ".a"));
}

TEST(Glob, SetsContainCharactersAndRanges) {
  EXPECT_TRUE(match("block[0-3].w", "block2.w"));
  EXPECT_FALSE(match("block[0-3].w", "block4.w"));
  EXPECT_TRUE(match("[qkv]", "k"));
  EXPECT_FALSE(match("[qkv]", "w"));
  EXPECT_TRUE(match("[!qkv]x", "wx"));
  EXPECT_FALSE(match("[!qkv]x", "kx"));
  EXPECT_FALSE(match("a[!x]b", "a.b")) << "a set must not match a dot, which separates parts";
  EXPECT_TRUE(match("[a-]", "-"));
  EXPECT_TRUE(match("[a-cx-z]", "y"));
}

TEST(Glob, BracesContainAlternativesAndMayNest) {
  EXPECT_TRUE(match("{q,k,v}.weight", "v.weight"));
  EXPECT_FALSE(match("{q,k,v}.weight", "w.weight"));
  EXPECT_TRUE(match("fc{,1}.b", "fc.b"));
  EXPECT_TRUE(match("{a.b,c}.d", "a.b.d"));
  EXPECT_TRUE(match("x{a,b{1,2}c}y", "xb2cy"));
  EXPECT_FALSE(match("x{a,b{1,2}c}y", "xb3cy"));
  EXPECT_TRUE(match("{**.bias,fc*}", "a.b.bias"));
  EXPECT_TRUE(match("a,b", "a,b")) << "a comma outside of braces is an ordinary character";
}

TEST(Glob, MalformedPatternsAreErrors) {
  EXPECT_EQ(error_of("block[0-3"), "pattern 'block[0-3': '[' at character 6 is not closed");
  EXPECT_EQ(error_of("{a,b"), "pattern '{a,b': '{' at character 1 is not closed");
  EXPECT_EQ(error_of("a{b,{c}"), "pattern 'a{b,{c}': '{' at character 2 is not closed");
  EXPECT_EQ(error_of("a}b"), "pattern 'a}b': '}' at character 2 has no matching '{'");
  EXPECT_EQ(error_of("a]b"), "pattern 'a]b': ']' at character 2 has no matching '['");
  EXPECT_EQ(error_of("[]"), "pattern '[]': the set at character 1 is empty");
  EXPECT_EQ(error_of("[!]"), "pattern '[!]': the set at character 1 is empty");
  EXPECT_EQ(error_of("[z-a]"), "pattern '[z-a]': the range z-a is reversed");
  EXPECT_EQ(error_of("[.]"), "pattern '[.]': a set must not contain a dot; it matches one character within a part");
  EXPECT_EQ(error_of(""), "a pattern must not be empty; \"**\" matches every name");
  EXPECT_EQ(error_of(std::string(40, '{') + std::string(40, '}')),
            cat("pattern '", std::string(40, '{') + std::string(40, '}'), "': braces nest more than 32 deep"));
}

TEST(Glob, ManyStarsAreMatchedFast) {
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(match("*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
  EXPECT_FALSE(match("{a,**}{a,**}{a,**}{a,**}{a,**}{a,**}{a,**}{a,**}{a,**}b", std::string(2000, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// The oracle is a POSIX regular expression, built element by element together with the pattern.
TEST(Glob, AGlobAgreesWithItsRegularExpression) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int matched = 0;
  for (int round = 0; round < 500; ++round) {
    std::string glob, regex;
    std::function<void(int)> piece = [&](int depth) {
      const bool after_star = !glob.empty() && glob.back() == '*';  // two adjacent stars would form "**"
      switch (int kind = below(depth > 1 ? 6 : 7); kind == 0 && after_star ? 5 : kind) {
        case 0: glob += '*', regex += "[^.]*"; break;
        case 1: glob += '?', regex += "[^.]"; break;
        case 2: glob += "[ab]", regex += "[ab]"; break;
        case 3: glob += "[!ab]", regex += "[^ab.]"; break;
        case 4: glob += '.', regex += "\\."; break;
        case 5: glob += 'a', regex += 'a'; break;
        default:
          glob += '{', regex += '(';
          piece(depth + 1);
          glob += ',', regex += '|';
          piece(depth + 1), piece(depth + 1);
          glob += '}', regex += ')';
      }
    };
    for (int i = 1 + below(4); i > 0; --i) {
      piece(0);
      if (below(6) == 0 && glob.back() != '*') glob += "c**", regex += "c.*";  // never at the beginning of a part
    }
    regex_t oracle;
    ASSERT_EQ(::regcomp(&oracle, cat("^(", regex, ")(\\..*)?$").c_str(), REG_EXTENDED | REG_NOSUB), 0);
    const Glob glob_under_test(glob);
    for (int i = 0; i < 20; ++i) {
      std::string name;
      for (int n = 1 + below(6); n > 0; --n) name += "abc.."[below(5)];
      if (name[0] == '.') continue;
      const bool expected = ::regexec(&oracle, name.c_str(), 0, nullptr, 0) == 0;
      matched += expected;
      EXPECT_EQ(glob_under_test.matches(name), expected)
          << "seed " << seed << ", pattern " << glob << ", name " << name;
    }
    ::regfree(&oracle);
  }
  EXPECT_GT(matched, 150);
}

}  // namespace
}  // namespace karez::base
