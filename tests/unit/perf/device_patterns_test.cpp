// Kernels fill the same patterns as the host, byte for byte, at any start and end. They count every wrong element once.
#include "perf/base/device_patterns.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "perf/common/bench.hpp"
#include "perf/common/buffers.hpp"

namespace wreath::perf {
namespace {

using Bytes = std::vector<std::byte>;

const DataType kDtypes[] = {DataType::Int8, DataType::BFloat16, DataType::Float32, DataType::Float64};

struct OnDevice {
  std::unique_ptr<Stream> stream = host_device().make_stream().value();
  std::unique_ptr<DevicePatterns> patterns = DevicePatterns::make(*stream).value();
  DeviceMemory memory = host_device().allocate(256 << 10).value();

  Bytes read(std::size_t at, std::size_t bytes) const {
    Bytes found(bytes);
    EXPECT_TRUE(host_device().copy(found.data(), memory.data() + at, bytes));
    return found;
  }
  void write(std::size_t at, const Bytes& bytes) const {
    EXPECT_TRUE(host_device().copy(memory.data() + at, bytes.data(), bytes.size()));
  }
};

std::vector<std::size_t> counts() { return {0, 1, 2, 7, 8, 9, 63, kPeriod - 1, kPeriod, kPeriod + 1, 2 * kPeriod + 3}; }

TEST(DevicePatterns, FillAsTheHostDoesAndTouchNothingBeside) {
  OnDevice device;
  for (const DataType dtype : kDtypes) {
    const PatternSet set(dtype, std::nullopt, 1);
    const Pattern& pattern = set.input(0, 0);
    for (const std::size_t count : counts()) {
      for (const std::size_t at : {std::size_t{64}, std::size_t{64 + 1}, std::size_t{64 + 5}, std::size_t{64 + 8}}) {
        for (const std::size_t first : {std::size_t{0}, std::size_t{1}, kPeriod - 1, 5 * kPeriod + 17}) {
          const std::size_t bytes = count * size_of(dtype);
          Bytes expected(bytes + 32, std::byte{0x5a});
          device.write(at - 16, expected);
          pattern.fill({expected.data() + 16, bytes}, first);
          ASSERT_TRUE(device.patterns->fill({device.memory.data() + at, bytes}, pattern, first));
          ASSERT_EQ(device.read(at - 16, bytes + 32), expected) << name(dtype) << " x " << count << " at " << at;
        }
      }
    }
  }
}

TEST(DevicePatterns, CountNothingWhereAllIsRight) {
  OnDevice device;
  for (const DataType dtype : kDtypes) {
    const PatternSet set(dtype, ReduceOp::Sum, 3);
    for (const std::size_t count : counts()) {
      const std::size_t bytes = count * size_of(dtype);
      const std::span<std::byte> part{device.memory.data() + 64 + 3, bytes};
      ASSERT_TRUE(device.patterns->fill(part, set.combined(1), 11));
      EXPECT_EQ(device.patterns->count_wrong(part, set.combined(1), 11).value(), 0U);
      if (count > 0) {
        EXPECT_GT(device.patterns->count_wrong(part, set.combined(0), 11).value(), 0U) << name(dtype) << " " << count;
      }
    }
  }
}

// The wrong bytes lie anywhere in an element, also in elements that lie in two words.
TEST(DevicePatterns, CountEachWrongElementOnce) {
  OnDevice device;
  for (const DataType dtype : kDtypes) {
    const std::size_t size = size_of(dtype);
    const PatternSet set(dtype, std::nullopt, 1);
    const Pattern& pattern = set.input(0, 0);
    constexpr std::size_t kCount = kPeriod + 100;
    for (std::size_t offset = 0; offset < 9; ++offset) {
      const std::span<std::byte> part{device.memory.data() + 64 + offset, kCount * size};
      ASSERT_TRUE(device.patterns->fill(part, pattern, 3));
      Bytes data = device.read(64 + offset, kCount * size);
      std::set<std::size_t> wrong;
      for (const std::size_t byte : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9},
                                     std::size_t{17}, 1000 * size + size - 1, kPeriod * size, kCount * size - 1}) {
        data[byte] ^= std::byte{0x10};
        wrong.insert(byte / size);
      }
      device.write(64 + offset, data);
      EXPECT_EQ(device.patterns->count_wrong(part, pattern, 3).value(), wrong.size()) << name(dtype) << " + " << offset;
      EXPECT_EQ(pattern.count_wrong(data, 3), wrong.size());
    }
  }
}

TEST(DevicePatterns, SetAndCheckGuards) {
  for (const std::size_t offset : {std::size_t{0}, std::size_t{3}}) {
    const auto buffers = Buffers::make(1000, offset, {MemoryPlace::HostDevice, &host_device()}).value();
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{999}, std::size_t{1000}}) {
      ASSERT_TRUE(buffers.set_guards(buffers.output, bytes));
      EXPECT_EQ(buffers.count_broken_guards(buffers.output, bytes).value(), 0U);
      std::byte* const start = buffers.output.first(0).data();
      for (std::byte* const broken : {start - 1, start - kGuardBytes, start + bytes, start + bytes + 63}) {
        const std::byte other{0};
        ASSERT_TRUE(host_device().copy(broken, &other, 1));
      }
      EXPECT_EQ(buffers.count_broken_guards(buffers.output, bytes).value(), 4U) << bytes;
    }
  }
}

// Rank 0 spoils the output of the last call of each kind: it changes one element, and a byte on either side of the
// output.
class SpoilingMember final : public Member {
 public:
  SpoilingMember(Communicator& communicator, int last) : under_(communicator), last_(last) {}
  int rank() const override { return under_.rank(); }
  int ranks() const override { return under_.ranks(); }
  Status run(const Call& call) override { return under_.run(call); }
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override {
    return under_.exchange(transfers, dtype);
  }
  Status start(const Call& call) override {
    WREATH_TRY(under_.start(call));
    if (rank() != 0 || number_++ != last_) return {};
    const std::size_t bytes = call.count * size_of(call.dtype);
    for (const std::byte* const at : {call.output - 1, call.output + bytes / 2, call.output + bytes}) {
      WREATH_TRY(call.stream->copy(const_cast<std::byte*>(at), &wrong_, 1));
    }
    return {};
  }
  std::string plan_for(Collective, std::size_t) const override { return {}; }

 private:
  CommunicatorMember under_;
  int last_;
  int number_ = 0;
  // No int32 of the data has this value at the byte that it replaces.
  std::byte wrong_{0x77};
};

TEST(BenchOnADevice, CountsWhatIsWrongAndOutOfBounds) {
  CommunicatorOptions setup;
  setup.device = "host";
  auto ranks = Communicator::create_local(2, setup).value();
  const CollectiveRow& row = row_of("all_reduce_perf");
  Options options;
  options.iterations = 4;
  options.dtypes = {DataType::Int32};
  const Case work = make_case(row, 2, 20'000, {DataType::Int32, ReduceOp::Sum, 0});
  Timing all;
  const auto measure = [&](Communicator& communicator) {
    SpoilingMember member(communicator, 1 + options.warmup + options.iterations - 1);
    auto buffers = Buffers::make(work.bytes, 1, {MemoryPlace::HostDevice, &host_device()}).value();
    Bench bench(member, row, options, buffers);
    const Timing timing = combine(member, options, bench.out_of_place(work).value()).value();
    const Timing in_place = combine(member, options, bench.in_place(work).value()).value();
    EXPECT_EQ(in_place.wrong + in_place.out_of_bounds, 0U);
    if (communicator.rank() == 0) all = timing;
  };
  {
    std::vector<std::jthread> threads;
    for (Communicator& each : ranks) threads.emplace_back([&] { measure(each); });
  }
  EXPECT_EQ(all.wrong, 1U);
  EXPECT_EQ(all.out_of_bounds, 2U);
}

}  // namespace
}  // namespace wreath::perf
