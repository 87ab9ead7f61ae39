// Where ranks' output goes: this process's stdout and stderr, line by line, and a file for each rank.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/fd.hpp"
#include "tools/run/lines.hpp"
#include "tools/run/plan.hpp"

namespace wreath::launcher {

class Output {
 public:
  explicit Output(const Plan& plan) : folder_(plan.output), prefix_(plan.prefix) {}

  // Makes the folder.
  Status open();
  // What a rank wrote to stdout (1) or stderr (2). False: nobody reads any more.
  bool add(int rank, int stream, std::string_view bytes);
  // Of a rank that is over, or of all: lines that had no end.
  void end(int rank);
  void end();
  // Whole lines.
  bool print(int stream, std::string_view text);

 private:
  struct Stream {
    Lines lines{""};
    Fd file;
  };
  Stream& stream_of(int rank, int stream);

  std::string folder_;
  bool prefix_;
  std::map<std::pair<int, int>, Stream> streams_;
};

}  // namespace wreath::launcher
