// A buffer of a call that is no memory of its process is that rank's mistake, and no peer is called lost for it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::test {
namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

// Memory that may not be touched, from its middle on.
class HalfOfABuffer {
 public:
  HalfOfABuffer() : data_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    ::mprotect(static_cast<std::byte*>(data_) + kBytes / 2, kBytes / 2, PROT_NONE);
  }
  HalfOfABuffer(const HalfOfABuffer&) = delete;
  HalfOfABuffer& operator=(const HalfOfABuffer&) = delete;
  ~HalfOfABuffer() { ::munmap(data_, kBytes); }
  void* data() const { return data_; }

 private:
  void* data_;
};

TEST(OwnBuffer, ThatIsNoMemoryIsTheCallersMistake) {
  const RecordingsFolder recordings;
  CommunicatorOptions options;
  options.transports = {"tcp"};
  LocalRanks ranks(2, options);
  const HalfOfABuffer half;
  std::vector<std::byte> whole(kBytes);
  ranks.run([&](Communicator& it) {
    const bool caller = it.rank() == 0;
    const Status status =
        caller ? it.send(half.data(), kBytes, DataType::Uint8, 1) : it.recv(whole.data(), kBytes, DataType::Uint8, 0);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument) << status.error().message;
    EXPECT_EQ(status.error().failed_rank, 0) << status.error().message;
    EXPECT_NE(status.error().message.find("not all memory of this process"), std::string::npos)
        << status.error().message;
  });
}

}  // namespace
}  // namespace wreath::test
