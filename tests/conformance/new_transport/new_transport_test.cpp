// A stream transport is one folder (foo/) and one row (registry.cpp). Everything runs over it alone.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/base/socket.hpp"
#include "src/fifo/access.hpp"
#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

using testing::HasSubstr;
using testing_support::Job;
using testing_support::kSlower;

constexpr std::size_t kElements = 300'000;

Status sums_right(Communicator& communicator) {
  std::vector<std::int32_t> values(kElements, communicator.rank() + 1);
  WREATH_TRY(communicator.all_reduce(std::span(values)));
  const std::int32_t sum = communicator.ranks() * (communicator.ranks() + 1) / 2;
  const auto right = std::count(values.begin(), values.end(), sum);
  if (static_cast<std::size_t>(right) == values.size()) return {};
  return Error{ErrorCode::Mismatch, fmt::format("{} of {} sums are right", right, values.size())};
}

// Runs a rank that is a process of its own.
WREATH_ROLE(sums_over_foo) {
  auto communicator = child.create();
  if (!communicator) return child.failed(communicator.error());
  child.report("transport " + communicator->transport_to((child.rank() + 1) % child.ranks()));
  const Status status = sums_right(*communicator);
  return status ? 0 : child.failed(status.error());
}

TEST(NewTransport, LinksProcessesAlone) {
  constexpr int kRanks = 3;
  Job job("sums_over_foo", kRanks, {}, {{"WREATH_TRANSPORT", "foo"}});
  ASSERT_TRUE(job.share_id()) << job.logs();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(job[rank].join(20'000 * kSlower), 0) << job.logs();
    EXPECT_THAT(job[rank].lines(), testing::Contains(HasSubstr("transport foo"))) << job.logs();
  }
}

TEST(NewTransport, IsPassedOverWhereItCannotBeUsed) {
  EXPECT_THAT(transports_between_processes(), testing::ElementsAre("unusable", "foo"));
  EXPECT_THAT(usable_between_processes(), testing::ElementsAre("foo"));
  CommunicatorOptions options;
  options.transports = {"unusable"};
  const auto none = Communicator::create_local(2, options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no transport links ranks"));
  EXPECT_THAT(none.error().message, HasSubstr("unusable: no adapter is here"));
  options.transports = {"unusable", "foo"};
  EXPECT_THAT(Communicator::create_local(2, options).value()[0].transport_to(1), testing::StartsWith("foo"));
}

constexpr FifoShape kShape{
    .lanes = 1, .slot_count = 2, .slot_bytes = 64, .first_sequence = 0, .epoch = 1, .checked = true};

Result<std::unique_ptr<Link>> link_by(Offer offer, const FifoShape& shape) {
  const Endpoint end{.rank = 0, .process = 1, .host = 1};
  auto transport = find_transport("foo")->make({.self = end, .ranks = 2, .shape = shape}).value();
  return transport->connect({.rank = 1, .process = 1, .host = 1}, std::move(offer));
}

std::unique_ptr<Link> link_over(Fd socket, const FifoShape& shape) {
  Offer offer;
  offer.descriptors = {::open("/dev/null", O_RDONLY | O_CLOEXEC), socket.release()};
  return link_by(std::move(offer), shape).value();
}

// Returns what a link sends of one message.
std::vector<std::byte> sent_message() {
  auto [own, other] = socket_pair().value();
  const std::unique_ptr<Link> link = link_over(std::move(own), kShape);
  link->prepare(0).value();
  SendFifo& fifo = link->send_fifo(0);
  EXPECT_TRUE(has_credit(fifo));
  std::memset(stage(fifo), 7, kShape.slot_bytes);
  next_slot(fifo).epoch = kShape.epoch;
  next_slot(fifo).bytes = kShape.slot_bytes;
  publish(fifo);
  EXPECT_GT(link->wire()->in_flight(), kShape.slot_bytes);
  EXPECT_TRUE(link->wire()->progress(false));
  EXPECT_EQ(link->wire()->in_flight(), 0u);
  std::vector<std::byte> frame(1000);
  frame.resize(static_cast<std::size_t>(std::max<std::ptrdiff_t>(try_recv(other.get(), frame), 0)));
  return frame;
}

// Returns what the other end says of that.
std::string received(const std::vector<std::byte>& frame, const FifoShape& shape) {
  auto [own, other] = socket_pair().value();
  const std::unique_ptr<Link> link = link_over(std::move(own), shape);
  send_all(other.get(), frame, Deadline::after_ms(1000)).value();
  const auto moved = link->wire()->progress(true);
  if (!moved) return moved.error().message;
  return peek(link->recv_fifo(0)) != nullptr ? "a message" : "nothing";
}

TEST(NewTransport, TakesNothingThatWasAlteredOnItsWay) {
  std::vector<std::byte> frame = sent_message();
  ASSERT_GT(frame.size(), kShape.slot_bytes);
  EXPECT_EQ(received(frame, kShape), "a message");
  frame.back() ^= std::byte{1};
  EXPECT_EQ(received(frame, kShape), "foo link to rank 1: a message was altered on its way");
}

// The frame says that no message was read, and this end began elsewhere.
TEST(NewTransport, BelievesNoCountOfMessagesThatItDidNotSend) {
  FifoShape shape = kShape;
  shape.first_sequence = 5;
  EXPECT_EQ(received(sent_message(), shape), "foo link to rank 1: more messages were read than were sent");
}

TEST(NewTransport, RefusesAnOfferWithoutItsStream) {
  const auto link = link_by({}, kShape);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ErrorCode::InvalidArgument);
}

class NewTransportRows : public testing::TestWithParam<Way> {};

TEST_P(NewTransportRows, GiveRightResults) {
  static const RowSuite suite({shapes_of_ranks({1, 2, 3, 5}), {elements(1), elements(37), elements(1500)}, 0, 3});
  static DataStore store;
  EXPECT_EQ(suite.expect_right_by(GetParam(), store), GetParam().algorithm != "dissemination");
}

std::vector<Way> ways_over_foo() {
  std::vector<Way> ways = all_ways();
  std::erase_if(ways, [](const Way& way) { return way.transport != "foo"; });
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Ways, NewTransportRows, testing::ValuesIn(ways_over_foo()), test_name);

TEST(NewTransport, LinksThreadsAndChildren) {
  LocalRanks ranks(4, {});
  ranks.run([](Communicator& communicator) {
    ASSERT_TRUE(communicator.barrier());
    auto half = communicator.split(communicator.rank() % 2, 0);
    ASSERT_TRUE(half) << half.error().message;
    const Status status = sums_right(*half);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_THAT(half->transport_to(1 - half->rank()), HasSubstr("foo"));
  });
}

}  // namespace
}  // namespace wreath::test
