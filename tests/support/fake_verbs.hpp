// A test controls the fake libibverbs.so.1 with these functions: its devices, its pace, its faults and its counters.
// The fake carries writes between threads of one process. Its adapter is one thread, which takes any ready queue pair
// next.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace wreath::test {

struct FakePort {
  bool infiniband = false;  // with LIDs; else Ethernet, with GIDs of RoCE
  bool active = true;
  int mtu = 5;  // the values of ibv_mtu, active_speed and active_width
  int speed = 128;
  int width = 2;
};

struct FakeAdapter {
  const char* name = nullptr;
  std::uint64_t guid = 0;
  int ports = 1;
  FakePort port[2] = {};
};

// Describes the adapters of the machine. Calls that exceed a limit are refused.
struct FakeNetwork {
  int adapters = 2;
  FakeAdapter adapter[4] = {{"fake_0", 0x0200'00ff'fe01'0000},
                            {"fake_1", 0x0200'00ff'fe02'0000},
                            {"fake_2", 0x0200'00ff'fe03'0000},
                            {"fake_3", 0x0200'00ff'fe04'0000}};
  const char* sysfs = "/nowhere";  // the folder that stands for /sys
  int max_requests = 16'384;       // of a queue
  int max_pieces = 16;             // of a request
  int max_entries = 65'536;        // of a completion queue
  std::uint32_t max_inline = 512;
  std::uint32_t max_message = 1U << 30;
  int max_regions = 100'000;
  bool dma_buf = true;
};

// Says what becomes of reads.
enum class FakeReads : std::uint8_t {
  Work,
  RefuseOne,  // as if the next one might not read there
  Refuse,
  Stall,  // none ends
};

// Says how the adapters behave from now on.
struct FakeBehaviour {
  std::uint64_t seed = 1;
  std::uint32_t piece_bytes = 16'384;  // the most that is copied at once
  std::uint32_t delay_us = 50;         // the longest pause; one step of 16 has one
  std::uint32_t time_divisor = 1;      // makes timeouts and timers shorter
  bool paused = false;                 // requests wait
  // Writes into memory that came as a dma-buf reach it only when a test calls flush(), or their adapter reads some of
  // that dma-buf.
  bool hold_device_writes = false;
  FakeReads reads = FakeReads::Work;
  // A region keeps its pages when other pages are mapped at its address. It works for shared mappings.
  bool pin_pages = false;
};

struct FakeCounters {
  std::uint64_t writes = 0;  // executed to the end
  std::uint64_t reads = 0;
  std::uint64_t begun_reads = 0;
  std::uint64_t immediates = 0;
  std::uint64_t inlined = 0;  // writes whose bytes post_send copied
  std::uint64_t bytes = 0;
  std::uint64_t doorbells = 0;  // calls of post_send
  std::uint64_t receives = 0;
  std::uint64_t completions = 0;  // polled
  std::uint64_t events = 0;       // of completion channels
  std::uint64_t registrations = 0;
  std::uint64_t registered = 0;  // alive
  std::uint64_t readable = 0;    // those of them that others may read
  std::uint64_t alive = 0;       // contexts, domains, regions, channels, queues and queue pairs
};

// Holds the values that one call of modify_qp set; -1 where it did not set one.
struct FakeModify {
  int access = -1;
  int timeout = -1;
  int retry_cnt = -1;
  int rnr_retry = -1;
  int min_rnr_timer = -1;
};

struct FakeVerbs {
  // Replaces all adapters and undoes what tests asked for. Returns false while a context is open.
  bool (*configure)(const FakeNetwork* network);
  void (*behave)(const FakeBehaviour* behaviour);
  FakeCounters (*counters)();
  // Copies the first `most` calls of modify_qp since configure(), and returns how many there were.
  std::size_t (*modifies)(FakeModify* into, std::size_t most);
  // Lets `after` calls of a function ("ibv_reg_mr", which stands for all registrations) pass and makes the next `times`
  // fail with this errno.
  void (*fail)(const char* function, int after, int times, int error);
  // Makes the request after the next `after` ones fail with this ibv_wc_status.
  void (*fail_request)(int after, int status);
  // Loses so many of 1000 packets from and to an adapter. The sender's adapter sends them again after its timeout.
  void (*lose)(int adapter, int per_mille);
  // Takes a port down or up again. Its own senders fail at once, senders to it by their timeouts.
  void (*set_port)(int adapter, int port, bool up);
  // Writes what hold_device_writes held back, and returns how many writes there were.
  std::size_t (*flush)();

  // Loads the library as a program would. All is null where that is not the fake.
  static FakeVerbs find() {
    FakeVerbs fake{};
    void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW);
    if (library == nullptr) return fake;
    void* const table = ::dlsym(library, "fake_verbs");
    if (table != nullptr) fake = *static_cast<const FakeVerbs*>(table);
    return fake;
  }
  explicit operator bool() const { return configure != nullptr; }
};

}  // namespace wreath::test
