// cuda_ipc between processes on every kind of device that is here: what a rank writes to its memory its peer reads, and
// what is left behind when a peer dies. The devices are opened in the children: no driver survives a fork.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/transports_cuda_ipc/ends.hpp"
#include "tests/unit/transports_mapped/processes.hpp"

namespace wreath {
namespace {

constexpr FifoShape kShape{.lanes = 2, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0, .epoch = 0};
constexpr int kNoDevice = 77;

using Bytes = std::vector<std::byte>;
Bytes pattern(Rank rank, std::size_t bytes) { return Bytes(bytes, std::byte(0x51 + rank)); }

// A process's rank; `device` "host" or "cuda:N", which ends the process where there is none.
struct Side {
  Rank rank;
  Fd control;
  LibraryDevice& device;
  test::DeviceEnd end;
  std::unique_ptr<Link> link;

  Side(Rank own, Fd socket, const std::string& name)
      : rank(own),
        control(std::move(socket)),
        device(open(name)),
        end(device, own, static_cast<std::uint64_t>(own), kShape) {}

  void connect() {
    send_offer(control, end.offer(peer()));
    link = std::move(end.connect(peer(), receive_offer(control))).value();
  }
  Endpoint peer() const { return {1 - rank, static_cast<std::uint64_t>(1 - rank), 1, device.identity()}; }

  static LibraryDevice& open(const std::string& name) {
    if (name == "host") return static_cast<LibraryDevice&>(host_device());
    const auto device = cuda_device(name.back() - '0');
    if (!device) ::_exit(kNoDevice);
    return static_cast<LibraryDevice&>(**device);
  }

  void fill_small_area() const {
    const Bytes own = pattern(rank, kSmallAreaBytes);
    end.segment->memory().write(end.segment->small_area(), own.data(), own.size()).value();
  }
  Bytes read_peers_small_area() const {
    Bytes found(kSmallAreaBytes);
    end.segment->memory().read(found.data(), link->mapped()->small_area, found.size()).value();
    return found;
  }
  // Waits for the peer to have come as far.
  void meet() const {
    Offer here;
    here.bytes.resize(1);
    send_offer(control, here);
    EXPECT_EQ(receive_offer(control).bytes.size(), 1u);
  }
};

void exchange(Rank rank, Fd socket, const std::string& name) {
  Side side(rank, std::move(socket), name);
  const int descriptors = open_descriptors();
  side.connect();
  side.fill_small_area();
  DeviceMemory memory = side.device.allocate(70'000, MemoryUse::Exportable).value();
  const Bytes own = pattern(rank, 70'000);
  side.device.copy(memory.data(), own.data(), own.size()).value();
  ASSERT_TRUE(side.end.segment->name_memory(memory.data() + 5, 100));
  auto announced = std::move(side.end.segment->take_announcements(1 - rank)).value();
  for (const Announcement& news : announced) {
    send_offer(side.control, news.offer);
  }
  side.link->accept_region(1, receive_offer(side.control)).value();
  RecvFifo recv;
  RegionView view;
  const auto read = [&](auto& target, const auto* source) {
    side.end.segment->memory().read(&target, reinterpret_cast<const std::byte*>(source), sizeof target).value();
  };
  read(recv, &side.link->recv_fifo(0));
  read(view, recv.regions + 1);
  Bytes found(70'000);
  side.end.segment->memory().read(found.data(), view.base, found.size()).value();
  EXPECT_GE(view.bytes, 70'000u);
  EXPECT_EQ(found, pattern(1 - rank, 70'000));
  side.meet();
  EXPECT_EQ(side.read_peers_small_area(), pattern(1 - rank, kSmallAreaBytes));
  side.meet();
  memory = DeviceMemory();
  side.link.reset();
  EXPECT_LE(open_descriptors(), descriptors + 1);  // a device may keep one of the last import's
}

// Two children, so that the test's own process opens no device. Whether there was one.
bool run_both(const std::string& device, void (*body)(Rank, Fd, const std::string&)) {
  auto [first, second] = packet_pair();
  std::vector<pid_t> children;
  for (Rank rank : {0, 1}) {
    children.push_back(start_child([&, own = rank == 0 ? &first : &second, other = rank == 0 ? &second : &first] {
      *other = Fd();
      body(rank, std::move(*own), device);
    }));
  }
  first = Fd();
  second = Fd();
  bool there = true;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDevice) {
      there = false;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    }
  }
  return there;
}

class DeviceProcesses : public testing::TestWithParam<std::string> {
 protected:
  static void run(void (*body)(Rank, Fd, const std::string&)) {
    if (!run_both(GetParam(), body)) {
      GTEST_SKIP() << "no CUDA device: run it where there is a GPU, or as multiprocess_cuda_ipc_fake_cuda";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(On, DeviceProcesses, testing::Values("host", "cuda:0"),
                         [](const auto& of) { return of.param.substr(0, 4); });

TEST_P(DeviceProcesses, ReadEachOthersMemory) { run(exchange); }

// A peer that dies after its offer: its memory is there as long as it is mapped; nothing blocks, nothing faults.
void outlive(Rank rank, Fd socket, const std::string& name) {
  Side side(rank, std::move(socket), name);
  side.fill_small_area();
  side.connect();
  side.meet();
  if (rank == 1) ::_exit(0);
  EXPECT_TRUE(receive_offer(side.control).bytes.empty());  // it is gone
  EXPECT_EQ(side.read_peers_small_area(), pattern(1, kSmallAreaBytes));
  const Status refused = side.link->accept_region(1, Offer());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("region 1 of rank 1: a peer's offer of device memory has 0 bytes"),
            std::string::npos)
      << refused.error().message;
}

TEST_P(DeviceProcesses, OutliveAPeerThatDies) { run(outlive); }

// One that dies before its offer.
void wait_in_vain(Rank rank, Fd socket, const std::string& name) {
  Side side(rank, std::move(socket), name);
  if (rank == 1) ::_exit(0);
  const auto link = side.end.connect(side.peer(), receive_offer(side.control));
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ErrorCode::Mismatch);
  EXPECT_NE(link.error().message.find("the control segment of rank 1"), std::string::npos) << link.error().message;
}

TEST_P(DeviceProcesses, TellOfAPeerThatNeverOffered) { run(wait_in_vain); }

}  // namespace
}  // namespace wreath
