// Tests every row of the registry by ranks in processes whose buffers are the host device's and are mapped by peers.
// The buffers are read in place, or staged for a rank that cannot map them. They are copied for a rank whose own
// buffers are the host's.
#include "tests/multiprocess/device_memory/loaded.hpp"
#include "tests/support/collective_matrix.hpp"
#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

using test::Way;

constexpr std::size_t kRoomBytes = std::size_t{64} << 20;

std::vector<test::MatrixCase> cases_of(const Way& way, int ranks) {
  std::vector<test::MatrixCase> cases;
  for (const Algorithm* row : test::rows_of(way, ranks)) {
    for (const DataType dtype : {DataType::Float32, DataType::Uint8}) {
      for (const std::size_t count : {std::size_t{100}, std::size_t{90'000}}) {
        const auto root = has_root(row->collective) ? static_cast<Rank>(cases.size()) % ranks : 0;
        cases.push_back({{row->collective, dtype, ReduceOp::Sum, ranks, root, count, {}, false}, row->order});
      }
    }
  }
  return cases;
}

// Gathers all of the room's end. Afterwards all peers have mapped the room, or never will.
Status announce(Communicator& communicator, test::DeviceRoom& room) {
  std::byte* const own = room.take(1 << 16);
  std::byte* const all = room.take((1 << 16) * static_cast<std::size_t>(communicator.ranks()));
  WREATH_TRY(communicator.all_gather(own, all, 1 << 16, DataType::Uint8));
  WREATH_TRY(communicator.barrier());
  sleep_ms(50);
  return {};
}

WREATH_ROLE(rows) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  const bool on_host = child.number("host_rank", -1) == child.rank();
  test::DeviceRoom room(host_device(), kRoomBytes, MemoryUse::Exportable);
  if (const Status told = announce(*communicator, room); !told) return child.failed(told.error());
  test::DataStore store;
  const Way way{child.text("algorithm"), "shm", 0, child.number("handwritten") != 0};
  for (const test::MatrixCase& each : cases_of(way, child.ranks())) {
    room.clear();
    const test::Placement placement{0, 0, each.work.count % 2 != 0, false, on_host ? nullptr : &host_device(), &room};
    const test::CollectiveRun run(each.work, store.get(each.work, each.order), child.rank(), placement);
    if (const Status status = test::run_case(*communicator, way, run); !status) return child.failed(status.error());
    if (const std::string wrong = run.wrong(); !wrong.empty()) {
      child.report("wrong " + wrong);
      return 4;
    }
  }
  child.report(loaded_kib() > 64 ? "loaded" : "not loaded");
  child.report(communicator->transport_to((child.rank() + 1) % child.ranks()));
  return 0;
}

struct Ranks {
  const char* name;
  int count;
  Arguments arguments;
};

std::vector<Ranks> all_ranks() {
  return {{"all", 3, {}},
          {"one_on_the_host", 2, {{"host_rank", "1"}}},
          {"one_without_a_device", 3, {{"host_rank", "1"}, {"device_1", "none"}}}};
}

class RowsOfProcesses : public testing::TestWithParam<std::tuple<Way, Ranks>> {};

std::string name_of(const testing::TestParamInfo<std::tuple<Way, Ranks>>& info) {
  const auto& [way, ranks] = info.param;
  return way.algorithm + (way.handwritten ? "_handwritten_" : "_") + ranks.name;
}

std::vector<Way> ways() {
  std::vector<Way> ways;
  for (const Way& way : test::all_ways()) {
    const bool barrier = way.algorithm == "dissemination";
    if (!way.algorithm.empty() && !barrier && way.transport == "shm" && way.single_copy_bytes == 0) ways.push_back(way);
  }
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, RowsOfProcesses,
                         testing::Combine(testing::ValuesIn(ways()), testing::ValuesIn(all_ranks())), name_of);

TEST_P(RowsOfProcesses, GiveRightResults) {
  const auto& [way, ranks] = GetParam();
  Arguments arguments = ranks.arguments;
  arguments["algorithm"] = way.algorithm;
  arguments["handwritten"] = way.handwritten ? "1" : "0";
  arguments["transport"] = "shm,cuda_ipc";
  arguments.emplace("devices", "host");
  Job job("rows", ranks.count, arguments, {{"WREATH_TILE_BYTES", "65536"}});
  ASSERT_TRUE(job.share_id());
  for (int rank = 0; rank < ranks.count; ++rank) ASSERT_EQ(job[rank].join(60'000 * kSlower), 0) << job.logs();
  const bool without = arguments.contains("device_1");
  EXPECT_EQ(way_of_devices(job[0].lines().back()), without ? "shm (cuda_ipc: rank 1 has no device)" : "shm, cuda_ipc");
  for (int rank = 0; rank < ranks.count && way.algorithm == "direct";
       ++rank) {  // others stage data that is overwritten
    const auto lines = job[rank].lines();
    const bool reads = without ? rank != 1 : rank == 1 || !arguments.contains("host_rank");
    EXPECT_EQ(lines[lines.size() - 2], reads ? "loaded" : "not loaded") << "rank " << rank << "\n" << job.logs();
  }
}

}  // namespace
}  // namespace wreath::testing_support
