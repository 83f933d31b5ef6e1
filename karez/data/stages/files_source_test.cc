// Tests of data sets of files: which files a path or pattern selects, their order, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FromFiles : public ::testing::Test {
 protected:
  // The element of a file is its path.
  static Element path_element(const std::string& path) {
    Element out;
    out.fields.emplace_back(Object(std::make_shared<const std::string>(path)));
    out.structure = leaf_structure();
    return out;
  }
  // The names of the files in the folder that these patterns select.
  std::vector<std::string> select(std::vector<std::string> patterns) const {
    for (std::string& pattern : patterns) pattern = folder.path(pattern);
    const Dataset dataset = from_files(patterns, path_element);
    std::vector<std::string> out;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const Element element = dataset.at(i, 2);
      EXPECT_EQ(element.index, i);
      EXPECT_EQ(element.epoch, 2);
      const auto& path = *static_cast<const std::string*>(std::get<Object>(element.fields[0]).get());
      out.push_back(path.substr(folder.path("").size()));
    }
    return out;
  }
  std::string error(const std::vector<std::string>& patterns) const {
    return error_of([&] { select(patterns); });
  }
  TestFolder folder;
};

TEST_F(FromFiles, MatchesOfAPatternAreSortedAndPatternsKeepTheirOrder) {
  for (const char* name : {"b2.txt", "b10.txt", "a.txt", "B.txt", "c.png", ".hidden.txt"}) folder.put(name, "");
  std::filesystem::create_directory(folder.path("x"));
  folder.put("x/a.txt", "");
  EXPECT_THAT(select({"*.txt"}), ElementsAre("B.txt", "a.txt", "b10.txt", "b2.txt"));
  EXPECT_THAT(select({"c.png", "b?.txt", "a.txt", "a.txt"}), ElementsAre("c.png", "b2.txt", "a.txt", "a.txt"));
  EXPECT_THAT(select({"*/*.txt", "[a-b].*"}), ElementsAre("x/a.txt", "a.txt"));
}

TEST_F(FromFiles, PatternsMaySelectFolders) {
  for (const char* name : {"a", "a-b", "a*", "c"}) std::filesystem::create_directory(folder.path(name));
  for (const char* name : {"a/1", "a-b/1", "a*/1", "c/1", "a/.2", "file"}) folder.put(name, "");
  EXPECT_THAT(select({"*/1"}), ElementsAre("a*/1", "a-b/1", "a/1", "c/1")) << "sorted as paths, not folder by folder";
  EXPECT_THAT(select({"a\\*/?"}), ElementsAre("a*/1"));
  EXPECT_THAT(select({"[ac]/*"}), ElementsAre("a/1", "c/1"));
  EXPECT_THAT(select({"a/.*2"}), ElementsAre("a/.2"));
  EXPECT_EQ(error({"file/*"}), cat("from_files: no file matches \"", folder.path("file/*"), "\""));
  std::filesystem::create_symlink(folder.path("file"), folder.path("link"));
  std::filesystem::create_directory_symlink(folder.path("a"), folder.path("d"));
  EXPECT_THAT(select({"lin?"}), ElementsAre("link"));
  EXPECT_THAT(select({"[d]/*"}), ElementsAre("d/1"));
  EXPECT_THAT(error({"[d]"}), HasSubstr("is a folder; a pattern for its files is"));
}

TEST_F(FromFiles, TheNameOfAnExistingFileIsNotAPattern) {
  for (const char* name : {"a[1].txt", "a1.txt", "a*", "ab"}) folder.put(name, "");
  EXPECT_THAT(select({"a[1].txt", "a*"}), ElementsAre("a[1].txt", "a*"));
  EXPECT_THAT(select({"a[1].tx?"}), ElementsAre("a1.txt"));
  EXPECT_THAT(select({"a\\*"}), ElementsAre("a*"));
}

TEST_F(FromFiles, FilesThatDoNotExistAreErrors) {
  folder.put("a.txt", "");
  std::filesystem::create_directory(folder.path("x"));
  std::filesystem::create_symlink("nowhere", folder.path("link.txt"));
  EXPECT_EQ(error({"a.txt", "none.txt"}),
            cat("from_files: cannot read \"", folder.path("none.txt"), "\": No such file or directory"));
  EXPECT_EQ(error({"a.txt", "*.jpg"}), cat("from_files: no file matches \"", folder.path("*.jpg"), "\""));
  EXPECT_EQ(error({"none/*.jpg"}), cat("from_files: no file matches \"", folder.path("none/*.jpg"), "\""));
  EXPECT_THAT(error({"*.txt"}), HasSubstr(cat("cannot read \"", folder.path("link.txt"), "\": No such file")));
  EXPECT_EQ(error({"x"}), cat("from_files: \"", folder.path("x"), "\" is a folder; a pattern for its files is \"",
                              folder.path("x/*"), "\""));
  EXPECT_THAT(error({"*"}), HasSubstr("cannot read")) << "the pattern matches a folder and a broken link";
  EXPECT_THAT(error({"**/a.txt"}), HasSubstr("contains '**', which is not supported"));
  EXPECT_THAT(error_of([] { from_files({""}, path_element); }),
              HasSubstr("a path must not be empty or contain a zero byte, got \"\""));
  EXPECT_THAT(error({std::string("a.txt\0b", 7)}), HasSubstr("a path must not be empty or contain a zero byte"));
  EXPECT_EQ(error_of([] { from_files({}, path_element); }), "from_files: at least one path or pattern is needed");
  EXPECT_EQ(error_of([] { from_files({"a"}, nullptr); }), "from_files: the function must not be null");
}

TEST_F(FromFiles, TheFilesAreListedOnce) {
  folder.put("1", "");
  const Dataset dataset = from_files({folder.path("*")}, path_element);
  const std::string text = dataset.text();
  folder.put("0", "");
  EXPECT_EQ(dataset.size(), 1);
  EXPECT_EQ(dataset.text(), text);
}

TEST_F(FromFiles, TheTextDependsOnTheNamesButNotOnTheFolder) {
  for (const char* name : {"r0", "r0/a", "r0/b", "r1", "r1/a", "r1/b", "r1/c"})
    std::filesystem::create_directory(folder.path(name));
  for (const char* name : {"r0/a/1", "r0/b/1", "r1/a/1", "r1/b/1", "r1/c/1", "r1/a/12"}) folder.put(name, "");
  const auto text = [&](std::vector<std::string> names) {
    for (std::string& name : names) name = folder.path(name);
    return from_files(names, path_element).text();
  };
  EXPECT_THAT(text({"r0/*/1"}), ::testing::MatchesRegex("from_files\\(2 files with hash [0-9a-f]{16}\\)\n"));
  EXPECT_EQ(text({"r0/*/1"}), text({"r1/a/1", "r1/b/1"}));
  EXPECT_NE(text({"r0/*/1"}), text({"r1/b/1", "r1/a/1"})) << "another order";
  EXPECT_NE(text({"r0/*/1"}), text({"r1/a/1", "r1/c/1"})) << "another folder inside of the common one";
  EXPECT_NE(text({"r0/*/1"}), text({"r1/*/1"}));
  EXPECT_NE(text({"r1/a/1"}), text({"r1/a/12"}));
  EXPECT_EQ(text({"r1/a/1"}), text({"r0/b/1"})) << "a single file has no folder";
}

TEST_F(FromFiles, PathsMayBeRelative) {
  folder.put("a", ""), folder.put("b", "");
  const std::filesystem::path old_folder = std::filesystem::current_path();
  const std::string expected = from_files({folder.path("*")}, path_element).text();
  std::filesystem::current_path(folder.path(""));
  const std::string relative = from_files({"a", "b"}, path_element).text();
  const std::string mixed = from_files({"a", "./b"}, path_element).text();
  std::filesystem::current_path(old_folder);
  EXPECT_EQ(relative, expected);
  EXPECT_NE(mixed, expected) << "paths are compared as text";
}

TEST_F(FromFiles, AnErrorOfTheFunctionIsPassedOn) {
  folder.put("a", "");
  const Dataset dataset = from_files(
      {folder.path("a")}, [](const std::string& path) -> Element { fail(ErrorKind::data, "cannot decode ", path); });
  EXPECT_EQ(error_of([&] { dataset.at(0); }), cat("cannot decode ", folder.path("a")));
  const Dataset invalid = from_files({folder.path("a")}, [](const std::string&) { return Element(); });
  EXPECT_THAT(error_of([&] { invalid.at(0); }), HasSubstr("from_files: the function returned an element without"));
}

}  // namespace
}  // namespace karez::data
