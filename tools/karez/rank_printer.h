// Where the output of ranks goes: to ours, a rank in front of each line, or as it is to a file for each rank.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "comm/socket.h"
#include "tools/karez/last_words.h"
#include "tools/karez/lines.h"

namespace karez::tools {

class RankPrinter {
 public:
  // `folder` "": to standard output and error; otherwise made if it is not there, with a file rankN.txt for each, of both streams as they come.
  RankPrinter(int ranks, const std::string& folder, bool prefix);

  // False once nobody takes it any more.
  bool print(int rank, bool error, std::string_view bytes);
  std::string last_words(int rank) const { return words_.count(rank) > 0 ? words_.at(rank).text() : ""; }
  bool over(int rank);  // it prints no more: the line that nothing ended goes out

 private:
  bool write_to(int descriptor, std::string_view text);

  std::string folder_;
  bool prefix_;
  std::map<int, Descriptor> files_;
  std::map<std::pair<int, bool>, Lines> lines_;
  std::map<int, LastWords> words_;
};

}  // namespace karez::tools
