// Records the cases that tests have run, for tests/coverage/count. With TEST_COVERAGE_FILE=PATH each case that a
// process runs becomes one line at the file's end. Lines of rows, transports, dtypes and operators say which cases
// there are.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_set>

#include "tests/support/collective_cases.hpp"
#include "tests/support/way.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::test {

class CoverageFile {
 public:
  // Returns the file of this process.
  static CoverageFile& own() {
    static CoverageFile file;
    return file;
  }
  CoverageFile(const CoverageFile&) = delete;
  CoverageFile& operator=(const CoverageFile&) = delete;

  bool wanted() const { return descriptor_ >= 0; }
  // Appends the line in one write, because other processes append to the same file.
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (!lines_.insert(line).second) return;
    const std::string whole = line + "\n";
    if (::write(descriptor_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) std::abort();
  }

 private:
  CoverageFile() {
    const char* const path = std::getenv("TEST_COVERAGE_FILE");
    if (path == nullptr || *path == 0) return;
    descriptor_ = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0) std::abort();
    add_what_there_is();
  }
  ~CoverageFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  void add_what_there_is() {
    for (const Algorithm& row : algorithms()) {
      std::string ranks;
      for (int n = 1; n <= kMostRanks; ++n) ranks += row.supports({row.collective, n, 0}) ? fmt::format(" {}", n) : "";
      add(fmt::format("row\t{}\t{}\t{:d}\t{:d}\t{:d}\t{:d}\t{}", name(row.collective), row.name,
                      reduces(row.collective), has_root(row.collective), (row.traits & kVarying) != 0, has_loop(row),
                      ranks));
    }
    for (const Way& way : transport_ways()) add("transport\t" + link_text(way));
    for (const DataType dtype : all_dtypes()) add(fmt::format("dtype\t{}", name(dtype)));
    for (const ReduceOp op : all_ops()) add(fmt::format("operator\t{}", name(op)));
  }
  static constexpr int kMostRanks = 17;

  std::mutex mutex_;
  std::unordered_set<std::string> lines_;
  int descriptor_ = -1;
};

// Records one rank's part of a call, in the order of the factors that tests/coverage/count names.
inline void record_case(const Way& way, const CollectiveCase& work, const Placement& placement, bool in_stream) {
  CoverageFile& file = CoverageFile::own();
  if (!file.wanted()) return;
  const bool in_place = placement.in_place && work.can_be_in_place();
  const std::string memory = placement.shared              ? "mapped"
                             : placement.device == nullptr ? "plain"
                                                           : std::string(placement.device->name()).substr(0, 4);
  file.add(fmt::format("case\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", name(work.collective), way.algorithm,
                       link_text(way), way.handwritten ? "handwritten" : "steps", name(work.dtype),
                       reduces(work.collective) ? name(work.op) : "-", work.ranks,
                       has_root(work.collective) ? fmt::format("{}", work.root) : "-",
                       work.varying() ? fmt::format("{}", fmt::join(work.counts, " ")) : fmt::format("{}", work.count),
                       work.varying() ? (work.gaps ? "gaps" : "v") : "fixed", in_place ? "in" : "out",
                       memory + (in_stream ? " stream" : "")));
}

}  // namespace wreath::test
