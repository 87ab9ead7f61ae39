// Measuring one size on one rank: warm-up, checked calls, timed calls that are checked too.
//
// Timed calls out of place alternate between two inputs of different data. Before each call one byte
// of the output is spoiled and after it compared, at a place that changes from call to call; the
// whole output is compared after the first and after the second half of the calls, which end on
// different inputs. So a call that was skipped, stale or partial is counted as wrong; one wrong element of a call that
// is not the last of its half is not, but for the byte: the rest would have to be read within the clock. In place calls
// work on the results of those before them: where they combine, on data that stays exact for a known number of calls,
// then the buffer is compared and filled anew with the clock stopped; where they move data, bytes are spoiled as above.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "perf/base/pattern.hpp"
#include "perf/common/buffers.hpp"
#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

// The result of one rank, or after combine() that of all.
struct Timing {
  double time_us = 0;                 // of one call
  std::uint64_t wrong = 0;            // elements (and spoiled bytes that stayed)
  std::uint64_t out_of_bounds = 0;    // guard bytes overwritten
  std::vector<double> iterations_us;  // -I: each timed call
  int iterations = 0;                 // timed calls
};

class Bench {
 public:
  // All referenced objects must outlive it. Buffers must hold the largest case.
  Bench(Member& member, const CollectiveRow& row, const Options& options, Buffers& buffers);
  // Both collective: every rank calls them with the same case.
  Result<Timing> out_of_place(const Case& work);
  // Not for rows that cannot be in place.
  Result<Timing> in_place(const Case& work);

 private:
  struct Spot {
    std::byte* watched;
    std::byte expected[2];
  };
  void prepare(const Case& work);
  void choose_spots(bool in_place);
  Status call(const std::byte* input, std::byte* output);
  Status call_spotted(int call_number, int stream, Timing& timing);
  template <typename Call>
  Result<double> trial_us(int calls, Call call) const;
  template <typename Call>
  Result<int> iterations(Call call) const;
  Status check_out_of_place(Timing& timing);
  Status check_in_place(Timing& timing);
  Status time_alternating(int calls, int first_stream, Timing& timing);
  Status time_repeated(int calls, Timing& timing);
  template <typename Call>
  Status timed(int calls, bool each, Timing& timing, Call call) const;
  bool checks() const { return options_.check > 0; }

  std::size_t bytes(std::size_t elements) const { return elements * size_of(work_.kind.dtype); }
  std::span<std::byte> input(int stream) const;
  std::span<std::byte> output() const { return buffers_.output.first(bytes(shape_.output)); }
  std::span<std::byte> shared_buffer() const;
  Member& caller() { return streamed_ ? static_cast<Member&>(*streamed_) : member_; }
  Status settle() const;
  Status poison_output() const;
  Status fill_input(int stream) const;
  Status fill_in_place() const;
  // The pattern of a segment; `calls` in place, on the results of each other.
  const Pattern& pattern_of(const Segment& segment, int stream, int calls = 1);
  Result<std::uint64_t> count_wrong_output(std::size_t offset, int stream, int calls = 1);
  Result<Timing> finished(Timing timing, std::size_t guarded) const;

  Member& member_;
  const CollectiveRow& row_;
  const Options& options_;
  Buffers& buffers_;
  std::optional<StreamMember> streamed_;  // makes the measured calls, where they are in a stream
  std::optional<PatternSet> data_;        // of the current dtype and operator
  Case work_;                             // the current case, and what follows from it
  Seat seat_;
  Shape shape_;
  InPlace in_place_;
  std::vector<Segment> segments_;
  std::vector<Spot> spots_;
};

// Makes every rank's Timing one: times by -a, -I's by the slowest rank of each call, wrong summed.
Result<Timing> combine(Member& member, const Options& options, const Timing& mine);

}  // namespace wreath::perf
