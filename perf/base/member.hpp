// One rank's end of the group under test, and the exchanges of a few bytes between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/communicator.hpp"

namespace wreath::perf {

// A send or a recv of a group.
struct Transfer {
  Rank to = -1;    // of a send
  Rank from = -1;  // of a recv
  std::byte* data = nullptr;
  std::size_t count = 0;
};

// The functions of a communicator that a measurement needs. Tests use a faulty one here.
class Member {
 public:
  virtual ~Member() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual Status run(const Call& call) = 0;
  // Runs all of the transfers at once.
  virtual Status exchange(std::span<const Transfer> transfers, DataType dtype) = 0;
  // These functions start the same calls in streams, where a member has streams, and return at once.
  virtual Status start(const Call& call) { return run(call); }
  virtual Status start_exchange(std::span<const Transfer> transfers, DataType dtype, Stream&) {
    return exchange(transfers, dtype);
  }
  virtual std::string plan_for(Collective collective, std::size_t bytes) const = 0;
  virtual std::vector<WireCounts> wire_counts() const { return {}; }
};

// The member of a real communicator, which must live longer than the member.
class CommunicatorMember : public Member {
 public:
  explicit CommunicatorMember(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int ranks() const override { return communicator_.ranks(); }
  Status run(const Call& call) override { return communicator_.run(call); }
  Status exchange(std::span<const Transfer> transfers, DataType dtype) override;
  Status start(const Call& call) override;
  Status start_exchange(std::span<const Transfer> transfers, DataType dtype, Stream& stream) override;
  std::string plan_for(Collective collective, std::size_t bytes) const override {
    return communicator_.plan_for(collective, bytes);
  }
  std::vector<WireCounts> wire_counts() const override { return communicator_.wire_counts(); }

 private:
  Communicator& communicator_;
};

// Returns once all ranks have entered.
Status barrier(Member& member);

// Returns the numbers of all ranks, rank by rank: ranks x mine.size(). All ranks must give equally many. It sums
// vectors that are zero outside the sender's place, so that it needs no call but all_reduce.
Result<std::vector<double>> gather(Member& member, std::span<const double> mine);

// Returns the text of every rank, cut to 120 bytes.
Result<std::vector<std::string>> gather_text(Member& member, std::string_view mine);

}  // namespace wreath::perf
