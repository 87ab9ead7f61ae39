// Sends the output of ranks to this process's stdout and stderr, line by line, and to a file for each rank.
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
  // `wait_on` returns whether to wait without a limit for the reader of the output.
  Output(const Plan& plan, std::function<bool()> wait_on)
      : folder_(plan.output), prefix_(plan.prefix), wait_on_(std::move(wait_on)) {}

  // Makes the folder.
  Status open();
  // Sets a descriptor that becomes readable when the result of `wait_on` may have changed.
  void wake_by(int descriptor) { wake_ = descriptor; }
  // Prints what a rank wrote to stdout (1) or stderr (2). An error of the library that another rank has printed in the
  // same words goes only to the rank's file. Returns 0, or the errno for which the text cannot be printed.
  int add(int rank, int stream, std::string_view bytes);
  // Prints the lines without an end of a rank that is over.
  void end(int rank);
  // Prints the lines without an end of all ranks.
  void end();
  // Prints whole lines. Returns 0, or the errno for which these and all later lines cannot be printed.
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
  // The library's own errors, with the rank that printed each one first.
  std::map<std::string, int, std::less<>> errors_;
};

}  // namespace wreath::launcher
