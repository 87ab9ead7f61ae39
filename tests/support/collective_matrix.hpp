// Many cases over one group of ranks: their data, how memory lies, and a run that compares every byte.
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

// How the memory of all ranks lies in one call; ranks differ in alignment, memory kind and place.
struct Arrangement {
  static constexpr int kPlaces = 4;    // in place on no rank, on all, on every third
  static constexpr int kMemories = 8;  // which rank has which kind
  static constexpr int kOffsets = 7;
  int place = 0;
  int memory = 0;
  int offset = 0;
};

// Of the calls that do not say it.
inline Arrangement arrangement_of(std::size_t number) {
  const auto of = [&](int values) { return static_cast<int>(number % static_cast<std::size_t>(values)); };
  return {of(Arrangement::kPlaces), static_cast<int>((number + number / 4) % Arrangement::kMemories),
          of(Arrangement::kOffsets)};
}

struct PlacedRank {
  Placement placement;
  bool in_stream = false;
};

// `device` null: of eight ranks one each has memory that peers map, memory of the host device, and both of them with
// its calls in a stream; in a build without devices that memory is ordinary. Of another device's: all buffers but those
// that peers map and, in every fourth call, those of even ranks.
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

// A case, and the row that will serve it: its order decides what data can be exact.
struct MatrixCase {
  CollectiveCase work;
  Order order = Order::Canonical;
  std::optional<Arrangement> arrangement = {};  // none: by its number among the cases
};

// Cases run in these surroundings.
struct Surroundings {
  Way way;
  std::string remark;        // what else a failure says of it
  Device* device = nullptr;  // whose memory calls are on; null: some ranks' is the host device's
};

// One call of one rank.
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
    std::deque<CollectiveRun>
        runs;  // to free a device's memory would wait for peers' kernels, which may wait for this rank
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
