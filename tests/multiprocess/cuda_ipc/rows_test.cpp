// Every algorithm by blocks of two processes, over cuda_ipc on the host device: slots, staging and inputs lie in device
// memory that the other process has imported, to be read.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/executor/grids.hpp"
#include "tests/unit/transports_cuda_ipc/ends.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath {
namespace {

// One of two ranks, in a process of its own.
class End {
 public:
  End(Rank rank, const Fd& control, const FifoShape& shape)
      : rank_(rank), control_(control), end_(host(), rank, static_cast<std::uint64_t>(rank), shape) {
    const Endpoint peer{1 - rank, static_cast<std::uint64_t>(1 - rank), 1, host().identity()};
    send_offer(control_, end_.offer(peer));
    link_ = std::move(end_.connect(peer, receive_offer(control_))).value();
  }

  // What the rank does in one operation, with Input in memory of the device. What went wrong; empty: nothing.
  std::string run(Lowered program, Job& job, int threads) {
    Plan plan;
    plan.lowered = std::move(program);
    for (const FifoEnd& end : plan.lowered.targets) {
      link_->prepare(end.lane).value();
      plan.targets.push_back(&link_->send_fifo(end.lane));
    }
    for (const FifoEnd& end : plan.lowered.sources) plan.sources.push_back(&link_->recv_fifo(end.lane));
    RankCall call = job.calls()[static_cast<std::size_t>(rank_)];
    const DeviceMemory input = put_on_device(job.input_bytes(rank_), call.state);
    exchange_announcements();
    std::vector<RankGrid> grids(1);
    const std::uint32_t stop = 0;
    grids[0].stream = host().make_stream().value();
    grids[0].run.stop = &stop;
    grids[0].run.stall_ns = 60'000'000'000;
    launch(grids[0], plan, call, threads);
    grids[0].stream->synchronize().value();
    const std::string left = unfinished(grids);
    return left.empty() ? job.wrong(rank_) : left;
  }

 private:
  DeviceMemory put_on_device(std::size_t bytes, OperationState& state) const {
    std::byte*& input = state.buffers[static_cast<int>(Buffer::Input)];
    const bool in_place = state.buffers[static_cast<int>(Buffer::Output)] == input;
    if (bytes == 0 || in_place) return {};
    DeviceMemory memory = host().allocate(bytes, MemoryUse::Exportable).value();
    host().copy(memory.data(), input, bytes).value();
    input = host().address_in_kernels(memory.data());
    const auto name = end_.segment->name_memory(memory.data(), bytes);
    if (name) {  // else all indices are used up, and it goes through staging
      state.region[static_cast<int>(Buffer::Input)] = name->index;
      state.region_offset[static_cast<int>(Buffer::Input)] = name->offset;
    }
    return memory;
  }

  void exchange_announcements() {
    const auto news = end_.segment->take_announcements(1 - rank_).value();
    Offer count;
    count.bytes.assign(news.size() + 1, std::byte{1});
    send_offer(control_, count);
    for (const Announcement& announcement : news) {
      Offer index;
      index.bytes.assign(announcement.index, std::byte{1});
      send_offer(control_, index);
      send_offer(control_, announcement.offer);
    }
    const std::size_t theirs = receive_offer(control_).bytes.size() - 1;
    for (std::size_t i = 0; i < theirs; ++i) {
      const auto index = static_cast<std::uint32_t>(receive_offer(control_).bytes.size());
      link_->accept_region(index, receive_offer(control_)).value();
    }
  }

  Rank rank_;
  const Fd& control_;
  test::DeviceEnd end_;
  std::unique_ptr<Link> link_;
};

// All of a row on one side; both make the same values.
void run_row(const Algorithm& algorithm, const Problem& problem, Rank rank, const Fd& control) {
  std::mt19937_64 random(31);
  for (const JobShape& shape : shapes(algorithm, 2)) {
    std::vector<Lowered> programs = lower_ranks(algorithm, problem, 2);
    std::uint16_t lanes = 1;
    for (const Lowered& program : programs) lanes = std::max(lanes, static_cast<std::uint16_t>(program.lanes.size()));
    End end(rank, control, {lanes, 2, 4096, 0xFFFFFFFDU, 1});
    for (const int threads : {3, 1}) {
      Job job(algorithm, problem, programs[0], shape, random);
      ASSERT_EQ(end.run(programs[static_cast<std::size_t>(rank)], job, threads), "") << name(shape.dtype);
    }
  }
}

class BlocksOfProcesses : public testing::TestWithParam<Algorithm> {};

std::string name_of(const testing::TestParamInfo<Algorithm>& info) {
  return std::string(name(info.param.collective)) + "_" + std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(Rows, BlocksOfProcesses, testing::ValuesIn(algorithms()), name_of);

TEST_P(BlocksOfProcesses, DoWhatTheCollectivePromises) {
  const Algorithm& algorithm = GetParam();
  const Problem problem{algorithm.collective, 2, has_root(algorithm.collective) ? 1 : 0};
  if (!algorithm.supports(problem)) return;
  const int before = open_descriptors();
  auto [child, socket] = start_peer([&](Fd theirs) { run_row(algorithm, problem, 1, theirs); });
  run_row(algorithm, problem, 0, socket);
  expect_success(child);
  socket = Fd();
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mapped_memfds(), 0);
}

}  // namespace
}  // namespace wreath
