// A table that compares meshes with one rank, on the screen and in a file. Each line appears as soon as its mesh is
// done.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace wreath::gpt::test {

struct ParityRow {
  std::string mesh = {};
  int ranks = 0;
  // The largest relative difference of any step.
  double loss = 0;
  // The step that has this difference.
  std::int64_t at = 0;
  double gradients = 0;  // of the first step, by parameter
  double norm = 0;       // of the first step's gradients
  double bound = 0;      // of `loss`
  // The error with which the run ended, or an empty text.
  std::string failure = {};
  bool ok() const;
};

class ParityTable {
 public:
  // Opens the file `path` and writes `title` above the table.
  ParityTable(const std::string& path, const std::string& title);
  void head();
  void add(const ParityRow& row);
  void say(const std::string& line);

 private:
  std::ofstream file_;
};

}  // namespace wreath::gpt::test
