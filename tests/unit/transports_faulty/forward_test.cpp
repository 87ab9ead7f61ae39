// The decorator hands on what a wire within it says of its adapter. It adds nothing where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/fifo/local_fifo.hpp"
#include "transports/faulty/link.hpp"

namespace wreath::test {
namespace {

constexpr FifoShape kShape{1, 2, 4096, 0, 1};

// Notes what it is asked, and carries nothing.
class NotingWire final : public Wire {
 public:
  explicit NotingWire(std::vector<std::string>& asked) : asked_(asked) {
    const LocalFifos::Lane lane = fifos_.lane(0);
    send_ = local_send_fifo(kShape, 0, lane.send_slots, *lane.send_consumed);
    recv_ = local_recv_fifo(kShape, 0, lane.recv_slots, *lane.recv_consumed);
  }
  SendFifo& send_fifo(std::uint16_t) override { return send_; }
  RecvFifo& recv_fifo(std::uint16_t) override { return recv_; }
  Status prepare(std::uint16_t) override { return {}; }
  bool closing_loses_data() const override { return false; }
  Result<std::size_t> progress(bool) override { return std::size_t{0}; }
  int descriptor() const override { return -1; }
  bool send_blocked() const override { return false; }
  std::size_t in_flight() const override { return 0; }
  bool arm() override { return note("arm"), false; }
  bool stop() override { return note("stop"), false; }
  std::string held_by() const override { return "port 1"; }
  bool has_words() const override { return has_words_; }
  std::optional<Offer> take_word() override {
    Offer word;
    word.bytes.resize(3);
    return word;
  }
  Status on_word(Offer word) override {
    note("word of " + std::to_string(word.bytes.size()));
    return Error{ErrorCode::Mismatch, "wrong"};
  }
  void on_peer_left() override { note("peer left"); }
  std::string path() const override { return "eth0"; }

  bool has_words_ = false;

 private:
  void note(std::string text) { asked_.push_back(std::move(text)); }

  std::vector<std::string>& asked_;
  LocalFifos fifos_{kShape, kShape};
  SendFifo send_{};
  RecvFifo recv_{};
};

TEST(FaultyLink, HandsOnWhatItsWireSays) {
  std::vector<std::string> asked;
  auto made = std::make_unique<NotingWire>(asked);
  NotingWire& wire = *made;
  FaultyLink link(std::move(made), kShape, 0, 1, FaultRates());
  EXPECT_FALSE(link.arm());
  EXPECT_FALSE(link.stop());
  EXPECT_EQ(link.held_by(), "port 1");
  EXPECT_FALSE(link.has_words());
  wire.has_words_ = true;
  EXPECT_TRUE(link.has_words());
  EXPECT_EQ(link.take_word()->bytes.size(), 3u);
  EXPECT_EQ(link.on_word(Offer()).error().message, "wrong");
  EXPECT_EQ(link.path(), "eth0");
  link.on_peer_left();
  EXPECT_THAT(asked, testing::ElementsAre("arm", "stop", "word of 0", "peer left"));
}

}  // namespace
}  // namespace wreath::test
