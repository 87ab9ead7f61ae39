// Tests what the verbs transport says and does when adapters, ports, memory or requests fail.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "tests/support/in_child.hpp"
#include "tests/support/surroundings.hpp"
#include "tests/unit/transports_verbs/ends.hpp"
#include "wreath/transport.hpp"

namespace wreath {
namespace {

using test::connect;
using test::Environment;
using test::FakeNetwork;
using test::settings_for;
using test::stop;
using test::VerbsEnd;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class VerbsFailures : public test::VerbsTest {
 protected:
  // Returns the sentence that says why verbs cannot be used here.
  static std::string complaint() {
    const Status usable = find_transport("verbs")->usable();
    return usable ? std::string() : usable.error().message;
  }
};

TEST_F(VerbsFailures, OfEachStatusAreToldOnceInWords) {
  struct Case {
    ibv_wc_status status;
    const char* words;
    ErrorCode code;
    bool retryable;
  };
  const Case table[] = {
      {IBV_WC_RETRY_EXC_ERR, "the peer's adapter does not answer", ErrorCode::PeerLost, true},
      {IBV_WC_RNR_RETRY_EXC_ERR, "the peer has no receives left", ErrorCode::PeerLost, false},
      {IBV_WC_REM_ACCESS_ERR, "the peer's adapter refused access", ErrorCode::PeerLost, false},
      {IBV_WC_REM_OP_ERR, "the peer's adapter could not carry out", ErrorCode::PeerLost, false},
      {IBV_WC_LOC_QP_OP_ERR, "the adapter could not carry out", ErrorCode::System, false},
      {IBV_WC_LOC_PROT_ERR, "memory that is not registered", ErrorCode::System, false},
      {IBV_WC_GENERAL_ERR, "without a reason", ErrorCode::System, false},
  };
  for (const Case& row : table) {
    VerbsEnd a(settings_for("=fake_0"));
    VerbsEnd b(settings_for("=fake_1"));
    ASSERT_TRUE(connect(a, b));
    fake_.fail_request(1, row.status);
    std::vector<Put> puts(8, a.put_to(b, 0, 8));
    for (Put& put : puts) put.reports = true;
    ASSERT_EQ(a.channel->put(puts).value(), puts.size());
    ASSERT_TRUE(a.wait([&] { return !a.lost.empty(); }));
    EXPECT_THAT(a.lost[0].error.message, AllOf(StartsWith("fake_0 port 1 gid 3 to 10.77.1.1 queue pair "),
                                               HasSubstr(row.words), HasSubstr("vendor's error")));
    EXPECT_EQ(a.lost[0].error.code, row.code) << row.words;
    EXPECT_EQ(a.lost[0].retryable, row.retryable) << row.words;
    EXPECT_FALSE(a.channel->put(puts));
    ASSERT_TRUE(stop(a));
    EXPECT_EQ(a.lost.size(), 1u) << row.words;
    EXPECT_EQ(a.ended.size(), 1u) << row.words;
  }
}

// A kernel may fail a request before it says why.
TEST_F(VerbsFailures, OfAPortMayComeBeforeTheNews) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  fake_.fail_request(0, IBV_WC_LOC_QP_OP_ERR);
  const Put put = a.put_to(b, 0, 8);
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  std::thread cable([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    fake_.set_port(0, 1, false);
  });
  const bool lost = a.wait([&] { return !a.lost.empty(); });
  cable.join();
  ASSERT_TRUE(lost);
  EXPECT_TRUE(a.lost[0].retryable) << a.lost[0].error.message;
  ASSERT_TRUE(stop(a));
}

TEST_F(VerbsFailures, OfAPortAreTriedAgainOnceItIsUp) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  fake_.set_port(0, 1, false);
  Put put = a.put_to(b, 0, 8);
  put.tells = 1;
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(a.wait([&] { return !a.lost.empty(); }));
  EXPECT_TRUE(a.lost[0].retryable) << a.lost[0].error.message;
  EXPECT_EQ(a.adapter->trouble(), "fake_0 port 1: the port went down");
  EXPECT_EQ(a.adapter->trouble(), std::nullopt);
  ASSERT_TRUE(stop(a));
  ASSERT_TRUE(stop(b));
  ASSERT_TRUE(a.channel->reset());
  ASSERT_TRUE(b.channel->reset());
  const Status down = a.channel->connect(b.channel->address());
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(down.error().message, HasSubstr("the port is DOWN"));
  EXPECT_THAT(b.channel->connect(a.channel->address()).error().message, HasSubstr("the peer's port is down"));
  fake_.set_port(0, 1, true);
  ASSERT_TRUE(stop(a));
  ASSERT_TRUE(stop(b));
  ASSERT_TRUE(a.channel->reset());
  ASSERT_TRUE(b.channel->reset());
  ASSERT_TRUE(connect(a, b));
  put = a.put_to(b, 0, 8);
  put.tells = 2;
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
  EXPECT_EQ(b.told.front(), 2u);
  EXPECT_EQ(a.adapter->trouble(), "fake_0 port 1: the port came up");
}

// All communicators of a process hear of a port, each once.
TEST_F(VerbsFailures, OfAPortAreToldToAllThatUseIt) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd other(settings_for("=fake_0"));
  VerbsEnd elsewhere(settings_for("=fake_1"));
  fake_.set_port(0, 1, false);
  EXPECT_EQ(a.adapter->trouble(), "fake_0 port 1: the port went down");
  EXPECT_EQ(other.adapter->trouble(), "fake_0 port 1: the port went down");
  EXPECT_EQ(elsewhere.adapter->trouble(), std::nullopt);
  EXPECT_EQ(a.adapter->trouble(), std::nullopt);
}

TEST_F(VerbsFailures, OfAnotherProtectionAreRefusedAtTheTarget) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  Put put = a.put_to(b, 0, 8);
  put.key ^= 1U;
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(a.wait([&] { return !a.lost.empty(); }));
  EXPECT_FALSE(a.lost[0].retryable);
  EXPECT_THAT(a.lost[0].error.message, HasSubstr("refused access to its memory"));
}

TEST_F(VerbsFailures, AfterLossOfSomePacketsTheRestArrives) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  fake_.lose(1, 150);
  constexpr std::size_t kRounds = 6;  // in some a packet is lost more than once
  std::vector<Put> puts(60, a.put_to(b, 0, 4096));
  for (std::uint32_t i = 0; i < puts.size(); ++i) puts[i].tells = i;
  puts.back().reports = true;
  for (std::size_t round = 1; round <= kRounds; ++round) {
    ASSERT_EQ(a.channel->put(puts).value(), puts.size());
    ASSERT_TRUE(b.wait([&] { return b.told.size() == round * puts.size(); }));
    ASSERT_TRUE(a.wait([&] { return a.ended.size() == round; }));
  }
  EXPECT_TRUE(a.lost.empty());
}

TEST_F(VerbsFailures, OfRegistrationNameBytesAndReason) {
  const auto adapter = test::open_first(settings_for("=fake_0"), 0, 2).value();
  std::vector<std::byte> memory(1 << 20);
  for (const int error : {ENOMEM, EFAULT, EINVAL}) {
    fake_.fail("ibv_reg_mr", 0, 1, error);
    const auto refused = adapter->register_memory(memory, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::System);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("fake_0: 1M of memory were not registered: "), HasSubstr(std::strerror(error))));
  }
  const auto registered = adapter->register_memory(memory, true);
  ASSERT_TRUE(registered);
  EXPECT_EQ(adapter->name(*registered).address, reinterpret_cast<std::uintptr_t>(memory.data()));
  adapter->deregister_memory(*registered);
}

// Lowers the limit of locked memory, and puts it back.
class LockLimit {
 public:
  explicit LockLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_MEMLOCK, &old_);
    rlimit lower = old_;
    lower.rlim_cur = std::min<rlim_t>(bytes, old_.rlim_max);
    ::setrlimit(RLIMIT_MEMLOCK, &lower);
  }
  ~LockLimit() { ::setrlimit(RLIMIT_MEMLOCK, &old_); }
  LockLimit(const LockLimit&) = delete;
  LockLimit& operator=(const LockLimit&) = delete;

 private:
  rlimit old_{};
};

TEST_F(VerbsFailures, OfLockedMemoryNameTheLimitAndTheFix) {
  const LockLimit limit(64 << 10);
  EXPECT_EQ(complaint(), "");  // this user may exceed it
  fake_.fail("ibv_reg_mr", 0, 1, ENOMEM);
  EXPECT_THAT(complaint(), AllOf(HasSubstr("32M of memory were not registered"), HasSubstr("may lock 64K"),
                                 HasSubstr("ulimit -l unlimited")));
}

TEST_F(VerbsFailures, TheRowSaysWhatTheMachineLacks) {
  EXPECT_EQ(complaint(), "");
  FakeNetwork none;
  none.adapters = 0;
  use(none);
  EXPECT_THAT(complaint(), HasSubstr("no RDMA adapter"));
  FakeNetwork down;
  down.adapters = 1;
  down.adapter[0].port[0].active = false;
  use(down);
  EXPECT_THAT(complaint(), AllOf(HasSubstr("no port is active: fake_0 port 1 DOWN"), HasSubstr("ip link set")));
  use({});
  const Environment choice{{{"WREATH_HCA", "=mlx5_0"}}};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("WREATH_HCA==mlx5_0 admits no port"), HasSubstr("fake_1 port 1 ACTIVE")));
}

TEST_F(VerbsFailures, TheRowSaysWhyDevicesCannotBeOpened) {
  FakeNetwork one;
  one.adapters = 1;
  use(one);
  fake_.fail("ibv_open_device", 0, 1, EACCES);
  EXPECT_THAT(complaint(),
              AllOf(HasSubstr("fake_0: /dev/infiniband/uverbs0: Permission denied"), HasSubstr("usermod")));
  fake_.fail("ibv_open_device", 0, 1, ENOENT);
  EXPECT_THAT(complaint(), HasSubstr("docker run --device=/dev/infiniband"));
  use({});
  fake_.fail("ibv_open_device", 0, 1, EACCES);
  EXPECT_EQ(complaint(), "");  // the other device serves
}

TEST_F(VerbsFailures, SettingsThatAreWrongAreErrorsAndNoReasonForAnotherTransport) {
  const Environment seven{{{"WREATH_IB_RETRY_COUNT", "7"}}};
  const Status usable = find_transport("verbs")->usable();
  ASSERT_FALSE(usable);
  EXPECT_EQ(usable.error().code, ErrorCode::InvalidArgument);
}

TEST_F(VerbsFailures, OfCallsAtOpeningLeaveNothingOpen) {
  for (const char* const call : {"ibv_query_device", "ibv_alloc_pd", "ibv_query_port", "ibv_create_comp_channel"}) {
    FakeNetwork one;
    one.adapters = 1;
    use(one);
    fake_.fail(call, 0, 1, EIO);
    const auto adapter = test::open_first(settings_for(""), 0, 2);
    EXPECT_FALSE(adapter) << call;
    EXPECT_EQ(fake_.counters().alive, 0u) << call;
  }
  use({});
  for (const char* const call : {"ibv_create_cq", "ibv_create_qp", "ibv_modify_qp", "ibv_post_recv"}) {
    const auto adapter = test::open_first(settings_for(""), 0, 2).value();
    const auto before = fake_.counters().alive;
    fake_.fail(call, 0, 1, ENOMEM);
    const auto channel = adapter->make_channel(8);
    ASSERT_FALSE(channel) << call;
    EXPECT_THAT(channel.error().message, HasSubstr("Cannot allocate memory")) << call;
    EXPECT_LE(fake_.counters().alive, before + 1) << call;  // the completion queue stays
  }
}

// The kernel refuses what a child of a fork asks by its parent's descriptors.
TEST_F(VerbsFailures, AChildOfAForkOpensItsOwnDevice) {
  const auto ports = find_ports(settings_for("=fake_0"), 0);
  ASSERT_TRUE(ports) << ports.error().message;
  const VerbsDevice* const device = ports->front().device.get();
  const auto opens = [&] { return find_ports(settings_for("=fake_0"), 0).value().front().device.get(); };
  EXPECT_EQ(opens(), device);
  EXPECT_EQ(test::in_child([&] { return opens() == device ? 1 : 0; }), 0);
}

TEST_F(VerbsFailures, InfiniBandIsReachedByLid) {
  FakeNetwork network;
  for (int i = 0; i < 2; ++i) network.adapter[i].port[0].infiniband = true;
  use(network);
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b)) << a.channel->describe();
  EXPECT_THAT(a.channel->describe(), StartsWith("fake_0 port 1 lid "));
  Put put = a.put_to(b, 0, 8);
  put.tells = 9;
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
}

TEST_F(VerbsFailures, RanksTakeTurnsAmongEqualPorts) {
  EXPECT_EQ(test::open_first(settings_for(""), 0, 2).value()->describe(), "fake_0 port 1");
  EXPECT_EQ(test::open_first(settings_for(""), 1, 2).value()->describe(), "fake_1 port 1");
}

TEST_F(VerbsFailures, TheProcessOpensADeviceOnce) {
  const auto a = test::open_first(settings_for("=fake_0"), 0, 2).value();
  const auto one = fake_.counters().alive;
  const auto b = test::open_first(settings_for("=fake_0"), 0, 2).value();
  EXPECT_EQ(fake_.counters().alive, one + 1);  // its completion channel
  EXPECT_EQ(&a->device(), &b->device());
}

TEST_F(VerbsFailures, TheRowMakesLinks) {
  const FifoShape shape{1, 4, 4096, 0, 1};
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<Offer> offers;
  for (Rank rank = 0; rank < 2; ++rank) {
    auto made = find_transport("verbs")->make({{rank, 1, 1}, 2, shape});
    ASSERT_TRUE(made) << made.error().message;
    ends.push_back(*std::move(made));
    offers.push_back(ends.back()->offer({1 - rank, 1, 1}).value());
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto other = static_cast<std::size_t>(1 - rank);
    auto link = ends[static_cast<std::size_t>(rank)]->connect({1 - rank, 1, 1}, std::move(offers[other]));
    ASSERT_TRUE(link) << link.error().message;
    EXPECT_EQ((*link)->wire()->path(), rank == 0 ? "fake_0 port 1" : "fake_1 port 1");
  }
}

}  // namespace
}  // namespace wreath
