// Tests the read by which memory of a device is flushed, over the stand-in and over any real adapter (tests/rdma).
// Memory of the host stands for the device's.
#include "transports/verbs/read_flush.hpp"

#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath {
namespace {

constexpr unsigned kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

TEST(VerbsReadFlush, ReadsWhatMayBeReadThroughTheAdapterItself) {
  if (const auto fake = test::FakeVerbs::find()) {
    const test::FakeNetwork usual;
    ASSERT_TRUE(fake.configure(&usual));
  }
  const auto adapter = test::open_first(test::settings_for(""), 0, 2).value();
  const auto region = Region::create(1, false, "memory of a device").value();
  const std::span memory(region->data(), region->bytes());
  const VerbsDevice& device = adapter->device();
  ibv_mr* const readable = device.register_memory(memory, kWritable | IBV_ACCESS_REMOTE_READ).value();
  ibv_mr* const closed = device.register_memory(memory, kWritable).value();
  const auto flush = [&](const ibv_mr* through) {
    return adapter->flush({reinterpret_cast<std::uintptr_t>(memory.data()) + 100, through->rkey});
  };
  for (int time = 0; time < 3; ++time) {
    for (int i = 0; i < 10; ++i) {
      const Status flushed = flush(readable);
      ASSERT_TRUE(flushed) << flushed.error().message;
    }
    const Status refused = flush(closed);
    ASSERT_FALSE(refused) << "the memory may not be read";
    EXPECT_EQ(refused.error().code, ErrorCode::System) << refused.error().message;
  }
  device.library().dereg_mr(readable);
  device.library().dereg_mr(closed);
}

}  // namespace
}  // namespace wreath
