// Measures one size on one rank: warm-up, checked calls, and timed calls that are checked, too.
// Timed calls out of place alternate between two inputs of different data. Before each call one byte of the output is
// spoiled, and it is compared after the call. The place of the byte changes from call to call.
// The whole output is compared after the first and after the second half of the calls. The halves end on different
// inputs, so a call that was skipped, stale or partial is counted as wrong. A call that is not the last of its half is
// checked only by its byte. A check of the rest would take time inside the clock.
// With --alternate other calls take turns with those: of one element less for each rank where there are more elements
// than ranks, and with the next rank as root. The last call of each half is of the case, and the one before it has the
// other input.
// Calls in place work on the results of the calls before them. Where they combine, the data stays exact for a known
// number of calls. Then the buffer is compared and filled again with the clock stopped. Where they move data, bytes
// are spoiled as above.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "perf/base/pattern.hpp"
#include "perf/common/buffers.hpp"
#include "perf/common/collectives.hpp"
#include "perf/common/common_start.hpp"
#include "perf/common/counters.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

// The result of one rank, or after combine() the result of all ranks.
struct Timing {
  double time_us = 0;                 // of one call
  std::uint64_t wrong = 0;            // elements, and spoiled bytes that stayed
  std::uint64_t out_of_bounds = 0;    // guard bytes that were overwritten
  std::vector<double> iterations_us;  // -I: each timed call
  int iterations = 0;                 // timed calls
  Counters counters;                  // --counters: of the timed calls
};

class Bench {
 public:
  // All referenced objects must live longer than the Bench. The buffers must hold the largest case.
  Bench(Member& member, const CollectiveRow& row, const Options& options, Buffers& buffers);
  // Measures a case out of place. It is collective: every rank calls it with the same case.
  Result<Timing> out_of_place(const Case& work);
  // Measures a case in place, collectively like out_of_place(). Rows that cannot be in place must not call it.
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
  Status call_other(int stream);
  // Returns whether call i of so many is another one than those of the case.
  bool is_other(int i, int calls) const { return options_.alternate && ((calls - 1 - i) & 1) != 0; }
  std::size_t guarded_bytes() const;
  // Returns the input of call `number` of a half that begins with `first`.
  int stream_of(int number, int first) const { return ((options_.alternate ? number / 2 : number) + first) & 1; }
  template <typename Call>
  Result<double> trial_us(int calls, Call call);
  template <typename Call>
  Result<int> iterations(Call call);
  Status check_out_of_place(Timing& timing);
  Status check_in_place(Timing& timing);
  Status time_alternating(int calls, int first_stream, Timing& timing);
  Status time_repeated(int calls, Timing& timing);
  template <typename Call>
  Status timed(int calls, bool each, Timing& timing, Call call);
  template <typename Call>
  Status timed_together(int calls, bool each, Timing& timing, Call call);
  Result<CommonStart::Clock::time_point> begin_together();
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
  // Returns the pattern of a segment. In place, `calls` calls have worked on each other's results.
  const Pattern& pattern_of(const Segment& segment, int stream, int calls = 1);
  Result<std::uint64_t> count_wrong_output(std::size_t offset, int stream, int calls = 1);
  Result<Timing> finished(Timing timing, std::size_t guarded) const;

  Member& member_;
  CommonStart start_;
  const CollectiveRow& row_;
  const Options& options_;
  Buffers& buffers_;
  // The member that makes the measured calls where they are in a stream.
  std::optional<StreamMember> streamed_;
  std::optional<PatternSet> data_;  // of the current dtype and operator
  Case work_;                       // the current case; the members below follow from it
  Seat seat_;
  Shape shape_;
  InPlace in_place_;
  std::vector<Segment> segments_;
  std::vector<Spot> spots_;
};

// Makes one Timing of the Timings of all ranks. Times are combined by -a, times of -I are the slowest rank's of each
// call, and wrong elements are added up.
Result<Timing> combine(Member& member, const Options& options, const Timing& mine);

}  // namespace wreath::perf
