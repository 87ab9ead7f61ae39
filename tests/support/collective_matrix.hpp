// The registries as a matrix: every algorithm over every transport, and many cases over one group of ranks.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "src/base/config.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "wreath/algorithm.hpp"
#include "wreath/transport.hpp"

namespace wreath::test {

// One name of the registry over one transport; a name may stand for rows of several collectives.
struct Way {
  std::string algorithm;
  std::string transport;
  std::size_t single_copy_bytes = 0;  // as in the options
  bool straight = false;              // by the loops written by hand
};

// Every transport with the tuner's choice; shm also with all messages read out of their senders' memory.
inline std::vector<Way> transport_ways() {
  std::vector<Way> ways;
  for (const TransportRow& transport : transports()) ways.push_back({"", std::string(transport.name)});
  ways.push_back({"", "shm", 1});
  return ways;
}

inline std::set<std::string> names_written_by_hand() {
  std::set<std::string> names;
  for (const Algorithm& row : algorithms()) {
    if ((row.traits & kWrittenByHand) != 0) names.emplace(row.name);
  }
  return names;
}

inline std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const Way& transport : transport_ways()) {
    std::vector<std::string_view> names;
    for (const Algorithm& row : algorithms()) {
      if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
    }
    for (const std::string_view each : names) {
      ways.push_back({std::string(each), transport.transport, transport.single_copy_bytes});
    }
    for (const std::string& each : names_written_by_hand()) {
      ways.push_back({each, transport.transport, transport.single_copy_bytes, true});
    }
  }
  return ways;
}

// A name for a test: letters, digits and underscores.
// What a sanitizer runs of them, which is to see each algorithm's code and each transport's: every algorithm over every
// second transport, and the next one over the others. Long runs have all.
inline std::vector<Way> sanitizer_ways(const std::vector<Way>& ways) {
  if (!testing_support::kSanitized || testing_support::rounds(0, 1) == 1) return ways;
  std::map<std::pair<std::string, bool>, std::size_t> turns;
  std::vector<Way> some;
  for (const Way& way : ways) {
    const std::size_t first = turns.size();
    std::size_t& turn = turns.try_emplace({way.algorithm, way.straight}, first).first->second;
    if (turn++ % 2 == 0) some.push_back(way);
  }
  return some;
}

inline std::string test_name(const testing::TestParamInfo<Way>& info) {
  return info.param.algorithm + "_" + info.param.transport + (info.param.single_copy_bytes > 0 ? "_single_copy" : "") +
         (info.param.straight ? "_straight" : "");
}

inline CommunicatorOptions options_of(const Way& way) {
  CommunicatorOptions options;
  options.transports = {way.transport};
  options.algorithm = way.algorithm;
  options.single_copy_bytes = way.single_copy_bytes;
  options.executor = way.straight ? "straight" : "steps";
  return options;
}

// The rows of that name that have data to hold them to and serve so many ranks, with all of `traits`.
inline std::vector<const Algorithm*> rows_of(const Way& way, int ranks, unsigned traits = 0) {
  if (way.straight) traits |= kWrittenByHand;
  std::vector<const Algorithm*> rows;
  for (const Algorithm& row : algorithms()) {
    const bool fits =
        row.name == way.algorithm && row.collective != Collective::Barrier && (row.traits & traits) == traits;
    if (fits && row.supports({row.collective, ranks, 0})) rows.push_back(&row);
  }
  return rows;
}

// WREATH_TEST_LONG=1: all of them.
inline std::vector<int> rank_counts(std::vector<int> usual) {
  const auto all_of_them = setting_boolean(Setting::TestLong);
  if (!all_of_them || !*all_of_them) return usual;
  std::vector<int> all(17);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

// Data by what they depend on, made once and kept.
class DataStore {
 public:
  // Not while ranks run: what it returned before may be made anew, with more elements.
  const CollectiveData& get(const CollectiveCase& work, Order order) {
    const Values values = !reduces(work.collective)   ? Values::Moved
                          : order == Order::Canonical ? Values::Revealing
                                                      : Values::Exact;
    const ReduceOp op = values == Values::Moved ? ReduceOp::Sum : work.op;
    std::size_t elements = work.count;
    for (Rank rank = 0; rank < work.ranks; ++rank) {
      elements = std::max(elements, elements_before(work, rank, work.ranks));
    }
    Entry& entry = entries_[{work.dtype, op, work.ranks, values}];
    if (!entry.data || entry.elements < elements) {
      entry.elements = std::max(elements, 2 * entry.elements);
      entry.data = std::make_unique<CollectiveData>(work.dtype, op, work.ranks, entry.elements, values);
    }
    return *entry.data;
  }

 private:
  struct Entry {
    std::size_t elements = 0;
    std::unique_ptr<CollectiveData> data;
  };
  std::map<std::tuple<DataType, ReduceOp, int, Values>, Entry> entries_;
};

// Ranks differ in alignment, memory kind and place; every fourth call is in place on all ranks, every fourth on none;
// of a rank's calls every seventh is on memory that peers map, every fifth on a device's, half of those in a stream.
// `device` null: the host device. Of another one's: all buffers but those that peers map and, in every third call,
// those of even ranks.
inline Placement placement_of(Rank rank, std::size_t number, Device* device) {
  const auto mine = static_cast<std::size_t>(rank);
  const bool in_place = number % 4 == 0 || (number % 4 > 1 && (mine + number) % 3 == 0);
  const bool on_device = device == nullptr ? (mine + number) % 5 == 1 : number % 3 != 2 || mine % 2 != 0;
  if (device == nullptr) device = &host_device();
  return {(3 * mine + number) % 5, (mine + 2 * number) % 7, in_place, (mine + number) % 7 == 0,
          on_device ? device : nullptr};
}

// A case, and the row that will serve it: its order decides what data can be exact.
struct MatrixCase {
  CollectiveCase work;
  Order order = Order::Canonical;
};

// Runs all cases one after the other on all ranks; every byte of every buffer must be right.
inline void expect_right(LocalRanks& ranks, const std::vector<MatrixCase>& cases, DataStore& store,
                         const std::string& way, Device* device = nullptr) {
  for (const MatrixCase& each : cases) store.get(each.work, each.order);
  std::vector<const CollectiveData*> data;
  for (const MatrixCase& each : cases) data.push_back(&store.get(each.work, each.order));
  std::atomic<int> shown = 0;
  ranks.run([&](Communicator& communicator) {
    const std::unique_ptr<Stream> stream = (device == nullptr ? host_device() : *device).make_stream().value();
    std::deque<CollectiveRun>
        runs;  // to free a device's memory would wait for peers' kernels, which may wait for this rank
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const CollectiveCase& work = cases[i].work;
      const Placement placement = placement_of(communicator.rank(), i, device);
      if (device == nullptr) runs.clear();
      const CollectiveRun& run = runs.emplace_back(work, *data[i], communicator.rank(), placement);
      Call call = run.call();
      if (placement.device != nullptr && i % 2 == 0) call.stream = stream.get();
      const Status status = communicator.run(call);
      if (!status) {
        ADD_FAILURE() << way << ": " << work.text() << ": " << status.error().message;
        return;
      }
      const std::string wrong = run.wrong();
      if (!wrong.empty() && shown.fetch_add(1) < 5) ADD_FAILURE() << way << ": " << wrong;
    }
  });
}

inline std::string text_of(const Way& way) {
  return (way.algorithm.empty() ? "the tuner's choice" : way.algorithm) + " over " + way.transport +
         (way.single_copy_bytes > 0 ? ", single copy" : "") + (way.straight ? ", straight" : "");
}

}  // namespace wreath::test
