// Where ranks' output goes: this process's stdout and stderr, line by line, and a file for each rank.
#pragma once

#include <array>
#include <functional>
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
  // `wait_on` says whether to wait as long as it takes for who takes the output.
  Output(const Plan& plan, std::function<bool()> wait_on)
      : folder_(plan.output), prefix_(plan.prefix), wait_on_(std::move(wait_on)) {}

  // Makes the folder.
  Status open();
  // A descriptor that can be read when `wait_on` may have changed its mind.
  void wake_by(int descriptor) { wake_ = descriptor; }
  // Prints what a rank wrote to stdout (1) or stderr (2). An error of the library's that another rank has told in the
  // same words is in its file alone. Returns 0, or the errno for which it cannot be printed.
  int add(int rank, int stream, std::string_view bytes);
  // Of a rank that is over, or of all: lines that had no end.
  void end(int rank);
  void end();
  // Whole lines. 0, or the errno for which they, and all others from then on, cannot be printed.
  int print(int stream, std::string_view text);

 private:
  struct Stream {
    Lines lines{""};
    Fd file;
  };
  Stream& stream_of(int rank, int stream);
  bool shows(int rank, std::string_view line);
  void lose_file(int rank, int stream, int error);
  std::string path_of(int rank, int stream) const;
  int wait_for(int descriptor);

  std::string folder_;
  bool prefix_;
  std::function<bool()> wait_on_;
  int wake_ = -1;
  std::array<int, 2> failures_{};  // errno of stdout, of stderr
  std::map<std::pair<int, int>, Stream> streams_;
  std::map<std::string, int, std::less<>> errors_;  // of the library's own, and which rank said it first
};

}  // namespace wreath::launcher
