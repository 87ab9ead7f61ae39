// Prints the lines of the table.
#include "tests/training/parity/table.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "tests/training/parity/reference.hpp"

namespace wreath::gpt::test {

bool ParityRow::ok() const {
  return failure.empty() && loss <= bound && gradients <= kGradientBound && norm <= kNormBound;
}

ParityTable::ParityTable(const std::string& path, const std::string& title) : file_(path) { say(title); }

void ParityTable::head() {
  say(fmt::format("{:<48} {:>5}  {:>9}  {:>7}  {:>9}  {:>9}  {:>9}", "mesh", "ranks", "loss", "at step", "gradients",
                  "norm", "bound"));
}

void ParityTable::add(const ParityRow& row) {
  say(fmt::format("{:<48} {:>5}  {:>9.1e}  {:>7}  {:>9.1e}  {:>9.1e}  {:>9.1e}  {}", row.mesh, row.ranks, row.loss,
                  row.at, row.gradients, row.norm, row.bound,
                  row.ok() ? "ok" : "FAILED" + (row.failure.empty() ? "" : ": " + row.failure)));
}

void ParityTable::say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
  file_ << line << std::endl;
}

}  // namespace wreath::gpt::test
