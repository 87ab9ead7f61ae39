// Measuring one size on one rank: warm-up, checked calls, timed calls that are checked too.
//
// Timed calls out of place alternate between two inputs of different data. Before each call one byte
// of the output is spoiled and after it compared, at a place that changes from call to call; the
// whole output is compared after the first and after the second half of the calls, which end on
// different inputs. So a call that was skipped, stale or partial is counted as wrong. In place each
// call sums the output of the call before, on data that stays exact for a known number of calls; then
// the buffer is compared and filled anew with the clock stopped.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/common/buffers.hpp"
#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"
#include "perf/common/pattern.hpp"

namespace wreath::perf {

// What is measured.
struct Case {
  std::size_t bytes;
  DataType dtype;
  ReduceOp op;
  std::size_t count() const { return bytes / size_of(dtype); }
};

// The result of one rank, or after combine() that of all.
struct Timing {
  double time_us = 0;                 // of one call
  std::uint64_t wrong = 0;            // elements (and spoiled bytes that stayed)
  std::uint64_t out_of_bounds = 0;    // guard bytes overwritten
  std::vector<double> iterations_us;  // -I: each timed call
};

class Bench {
 public:
  // All referenced objects must outlive it. Buffers must hold the largest case.
  Bench(Member& member, const CollectiveRow& row, const Options& options, Buffers& buffers);
  // Both collective: every rank calls them with the same case.
  Result<Timing> out_of_place(const Case& work);
  Result<Timing> in_place(const Case& work);

 private:
  struct Spot {
    std::size_t offset;
    std::byte expected[2];
  };
  const SumPatterns& patterns(DataType dtype);
  void prepare(const Case& work);
  Status call(const Case& work, const std::byte* input) const;
  Status check_out_of_place(const Case& work, Timing& timing);
  Status check_in_place(const Case& work, Timing& timing);
  Status time_alternating(const Case& work, int calls, int first_parity, Timing& timing);
  Status time_repeated(const Case& work, int calls, Timing& timing);
  Status call_spotted(const Case& work, int call_number, int parity, Timing& timing) const;
  template <typename Call>
  Status timed(int calls, bool each, Timing& timing, Call call) const;
  bool checks() const { return options_.check > 0; }

  Member& member_;
  const CollectiveRow& row_;
  const Options& options_;
  Buffers& buffers_;
  std::vector<SumPatterns> patterns_;
  std::vector<DataType> pattern_dtypes_;
  const SumPatterns* data_ = nullptr;  // of the current case
  std::vector<Spot> spots_;
};

// Makes every rank's Timing one: times by -a, -I's by the slowest rank of each call, wrong summed.
Result<Timing> combine(Member& member, const Options& options, const Timing& mine);

}  // namespace wreath::perf
