// Runs many cases over one group of ranks, each with its data and its places in memory. A run compares every byte.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tests/support/collective_cases.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/host_device.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/way.hpp"

namespace wreath::test {

// Makes data and keeps it by the values that it depends on.
class DataStore {
 public:
  // Returns the data of a case. It must not be called while ranks run: data that it returned before may be made anew,
  // with more elements.
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

// Says where the memory of all ranks is in one call. Ranks differ in alignment, kind of memory and place.
struct Arrangement {
  // The place numbers: in place on no rank, on all ranks, or on every third rank.
  static constexpr int kPlaces = 4;
  // The memory number says which rank has which kind of memory.
  static constexpr int kMemories = 8;
  static constexpr int kOffsets = 7;
  int place = 0;
  int memory = 0;
  int offset = 0;
};

// Returns the arrangement of a case that has none of its own.
inline Arrangement arrangement_of(std::size_t number) {
  const auto of = [&](int values) { return static_cast<int>(number % static_cast<std::size_t>(values)); };
  return {of(Arrangement::kPlaces), static_cast<int>((number + number / 4) % Arrangement::kMemories),
          of(Arrangement::kOffsets)};
}

struct PlacedRank {
  Placement placement;
  bool in_stream = false;
};

// Returns one rank's placement. With a null `device`, one of eight ranks has memory that peers map, and one has memory
// of the host device. Two more have the same kinds, with calls in a stream. In a build without devices the memory of
// the host device is ordinary memory. With another `device` all buffers are its memory, except buffers that peers map
// and, in every fourth call, those of even ranks.
inline PlacedRank place_rank(Rank rank, const Arrangement& all, Device* device) {
  enum Kind { kPlain, kMapped, kMappedInStream, kDevice, kDeviceInStream };
  constexpr std::array<Kind, Arrangement::kMemories> kKinds{kPlain, kMapped,         kPlain,          kDevice,
                                                            kPlain, kMappedInStream, kDeviceInStream, kPlain};
  const Kind kind = kKinds[static_cast<std::size_t>((all.memory + 3 * rank) % Arrangement::kMemories)];
  PlacedRank its;
  its.placement.input_offset = static_cast<std::size_t>((3 * rank + all.offset) % 5);
  its.placement.output_offset = static_cast<std::size_t>((rank + 2 * all.offset) % 7);
  its.placement.in_place = all.place == 1 || (all.place > 1 && (rank + all.place) % 3 == 0);
  its.placement.shared = kind == kMapped || kind == kMappedInStream;
  if (device == nullptr) {
    const bool on_device = kind == kDevice || kind == kDeviceInStream;
    if (on_device && has_host_device()) its.placement.device = &host_device();
    its.in_stream = kind == kMappedInStream || kind == kDeviceInStream;
  } else if (all.memory % 4 != 3 || rank % 2 != 0) {
    its.placement.device = device;
    its.in_stream = all.memory % 2 == 0;
  }
  return its;
}

// A case, and the row that will serve it. The order of the row decides which data can be exact.
struct MatrixCase {
  CollectiveCase work;
  Order order = Order::Canonical;
  // The arrangement; without one the case's number decides.
  std::optional<Arrangement> arrangement = {};
};

// Says how and where cases run.
struct Surroundings {
  Way way;
  std::string remark;  // added to a failure's text
  // The device whose memory calls use. With null some ranks use memory of the host device.
  Device* device = nullptr;
};

// Makes one call of one rank.
inline Status run_case(Communicator& communicator, const Way& way, const CollectiveRun& run, Stream* stream = nullptr) {
  Call call = run.call();
  call.stream = stream;
  record_case(way, run.work(), run.placement(), stream != nullptr);
  return communicator.run(call);
}

// Runs all cases one after the other on all ranks; every byte of every buffer must be right.
inline void expect_right(LocalRanks& ranks, const std::vector<MatrixCase>& cases, DataStore& store,
                         const Surroundings& around) {
  for (const MatrixCase& each : cases) store.get(each.work, each.order);
  std::vector<const CollectiveData*> data;
  for (const MatrixCase& each : cases) data.push_back(&store.get(each.work, each.order));
  const std::string text = text_of(around.way) + around.remark;
  std::atomic<int> shown = 0;
  ranks.run([&](Communicator& communicator) {
    Device& device = around.device == nullptr ? host_device() : *around.device;
    const std::unique_ptr<Stream> stream = has_host_device() ? device.make_stream().value() : nullptr;
    // Runs are kept, because freeing a device's memory would wait for peers' kernels, which may wait for this rank.
    std::deque<CollectiveRun> runs;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Arrangement arrangement = cases[i].arrangement.value_or(arrangement_of(i));
      const PlacedRank its = place_rank(communicator.rank(), arrangement, around.device);
      if (around.device == nullptr) runs.clear();
      const CollectiveRun& run = runs.emplace_back(cases[i].work, *data[i], communicator.rank(), its.placement);
      const Status status = run_case(communicator, around.way, run, its.in_stream ? stream.get() : nullptr);
      if (!status) {
        ADD_FAILURE() << text << ": " << cases[i].work.text() << ": " << status.error().message;
        return;
      }
      const std::string wrong = run.wrong();
      if (!wrong.empty() && shown.fetch_add(1) < 5) ADD_FAILURE() << text << ": " << wrong;
    }
  });
}

}  // namespace wreath::test
