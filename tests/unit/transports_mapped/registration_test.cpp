// Registration makes ordinary memory shareable in place. It keeps the contents, lets peers read them, refuses other
// memory and leaves nothing behind.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/region.hpp"
#include "src/fifo/segment.hpp"
#include "tests/unit/transports_mapped/processes.hpp"
#include "wreath/memory.hpp"

namespace wreath::registration {
namespace {

constexpr std::size_t kPage = 4096;
constexpr FifoShape kShape{.lanes = 1, .slot_count = 4, .slot_bytes = 4096, .first_sequence = 0, .epoch = 1};

// Pages of anonymous memory.
class Pages {
 public:
  explicit Pages(std::size_t pages, int access = PROT_READ | PROT_WRITE)
      : bytes_(pages * kPage),
        base_(static_cast<std::byte*>(::mmap(nullptr, bytes_, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(base_, bytes_); }
  std::byte* data() const { return base_; }
  std::size_t size() const { return bytes_; }
  void fill() const {
    for (std::size_t i = 0; i < bytes_; ++i) base_[i] = value_at(i);
  }
  bool filled() const {
    for (std::size_t i = 0; i < bytes_; ++i) {
      if (base_[i] != value_at(i)) return false;
    }
    return true;
  }
  static std::byte value_at(std::size_t i) { return static_cast<std::byte>(i * 7 + i / kPage); }

 private:
  std::size_t bytes_;
  std::byte* base_;
};

// Returns the access rights of the mapping that holds `data`, such as "rw-p".
std::string access_of(const void* data) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::string line; std::getline(maps, line);) {
    const std::uintptr_t begin = std::stoull(line, nullptr, 16);
    const std::uintptr_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (address >= begin && address < end) return line.substr(line.find(' ') + 1, 4);
  }
  return "";
}

TEST(Registration, KeepsContentsAndAddressesFromBeginningToEnd) {
  const int descriptors = open_descriptors();
  const std::size_t regions = region_count();
  const Pages pages(5);
  pages.fill();
  {
    const Registration registration = std::move(register_memory(pages.data(), pages.size())).value();
    EXPECT_EQ(registration.data(), pages.data());
    EXPECT_EQ(registration.size(), pages.size());
    EXPECT_TRUE(pages.filled());
    EXPECT_EQ(access_of(pages.data()), "rw-s");
    EXPECT_NE(find_containing(pages.data() + 100, kPage), nullptr);
    pages.data()[kPage] = std::byte{1};
  }
  EXPECT_EQ(pages.data()[kPage], std::byte{1});
  pages.data()[kPage] = Pages::value_at(kPage);
  EXPECT_TRUE(pages.filled());
  EXPECT_EQ(access_of(pages.data()), "rw-p");
  EXPECT_EQ(find_containing(pages.data(), 1), nullptr);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(region_count(), regions);
  EXPECT_EQ(mapped_memfds(), 0);
}

TEST(Registration, IsOfTheWholePagesInside) {
  const Pages pages(4);
  pages.fill();
  const Registration inner = std::move(register_memory(pages.data() + 1, pages.size() - 2)).value();
  EXPECT_EQ(inner.data(), pages.data() + kPage);
  EXPECT_EQ(inner.size(), 2 * kPage);
  EXPECT_TRUE(pages.filled());
  EXPECT_EQ(access_of(pages.data()), "rw-p");
}

TEST(Registration, OfTheHeapSurvivesItsNeighbours) {
  std::vector<std::vector<int>> neighbours;
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kPage, 8 * kPage), &std::free);
  std::memset(memory.get(), 0x5a, 8 * kPage);
  {
    const Registration registration = std::move(register_memory(memory.get(), 8 * kPage)).value();
    for (int i = 0; i < 100; ++i) neighbours.emplace_back(1'000, i);
    EXPECT_EQ(registration.size(), 8 * kPage);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(neighbours[static_cast<std::size_t>(i)].back(), i);
  EXPECT_EQ(static_cast<unsigned char*>(memory.get())[8 * kPage - 1], 0x5a);
}

TEST(Registration, MovesAndEndsOnce) {
  const Pages pages(2);
  Registration first = std::move(register_memory(pages.data(), pages.size())).value();
  Registration second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  first = std::move(second);
  EXPECT_EQ(first.size(), pages.size());
  first = Registration();
  EXPECT_EQ(first.size(), 0U);
}

void expect_refused(void* data, std::size_t bytes, const std::string& what) {
  const auto refused = register_memory(data, bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(refused.error().message.find(what), std::string::npos) << refused.error().message;
}

TEST(Registration, RefusesWhatIsNoPrivateWritableMemory) {
  const Pages pages(4);
  expect_refused(nullptr, kPage, "data = 0x0");
  expect_refused(pages.data(), ~std::size_t{0}, "bytes = ");
  expect_refused(pages.data(), 0, "no whole page");
  expect_refused(pages.data() + 1, 2 * kPage - 2, "no whole page");
  const Pages readable(2, PROT_READ);
  expect_refused(readable.data(), readable.size(), "r--p");
  ASSERT_EQ(::munmap(pages.data() + 2 * kPage, kPage), 0);
  expect_refused(pages.data(), pages.size(), "is not mapped");
  const Memory shared = std::move(allocate(2 * kPage)).value();
  expect_refused(shared.data(), shared.size(), "rw-s");
  const Registration registration = std::move(register_memory(pages.data(), 2 * kPage)).value();
  expect_refused(pages.data() + kPage, kPage, "once");
}

TEST(Registration, IsReadInPlaceByAPeer) {
  auto [child, socket] = start_peer([](Fd theirs) {
    const auto region = open_announced(receive_offer(theirs)).value();
    EXPECT_EQ(region->bytes(), 3 * kPage);
    EXPECT_EQ(region->data()[2 * kPage], Pages::value_at(2 * kPage));
    send_offer(theirs, Offer());
    receive_offer(theirs);
    EXPECT_EQ(region->data()[2 * kPage], std::byte{0x11});  // written after it was mapped
    send_offer(theirs, Offer());
    receive_offer(theirs);
    // The memory was given back: reading it is no fault, and gives zeros instead of data.
    EXPECT_EQ(region->data()[2 * kPage], std::byte{0});
  });
  const Pages pages(3);
  pages.fill();
  const auto segment = std::move(OwnSegment::create(0, 2, kShape, host_segment_memory(true))).value();
  const Offer offered = std::move(segment->offer(1, true)).value();
  std::optional<Registration> registration(std::move(register_memory(pages.data(), pages.size())).value());
  const auto name = segment->name_memory(pages.data() + kPage, kPage);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->offset, kPage);
  const std::vector<Announcement> news = segment->take_announcements(1).value();
  ASSERT_EQ(news.size(), 1U);
  send_offer(socket, news[0].offer);
  receive_offer(socket);
  pages.data()[2 * kPage] = std::byte{0x11};
  send_offer(socket, Offer());
  receive_offer(socket);
  registration.reset();
  EXPECT_EQ(pages.data()[2 * kPage], std::byte{0x11});
  EXPECT_FALSE(segment->name_memory(pages.data(), kPage));
  send_offer(socket, Offer());
  expect_success(child);
}

}  // namespace
}  // namespace wreath::registration
