// A table of meshes beside one rank, on the screen and in a file, a line as soon as its mesh is done.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace wreath::gpt::test {

struct ParityRow {
  std::string mesh = {};
  int ranks = 0;
  double loss = 0;           // the largest relative difference of any step ...
  std::int64_t at = 0;       // ... and that step
  double gradients = 0;      // of the first step, by parameter
  double norm = 0;           // of the first step's gradients
  double bound = 0;          // of `loss`
  std::string failure = {};  // where the run ended with an error
  bool ok() const;
};

class ParityTable {
 public:
  // `title` stands above it.
  ParityTable(const std::string& path, const std::string& title);
  void head();
  void add(const ParityRow& row);
  void say(const std::string& line);

 private:
  std::ofstream file_;
};

}  // namespace wreath::gpt::test
