// Joins ranks that are threads of one process, without any network.
#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>

#include "src/base/random.hpp"
#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/host.hpp"
#include "src/bootstrap/proof.hpp"

namespace wreath {
namespace {

// Makes streams between ranks of one process: the rank that asks first makes the pair and leaves the other end here.
class LocalStreams {
 public:
  explicit LocalStreams(int ranks) : ranks_(ranks) {}

  Result<Fd> open(Rank self, Rank peer) {
    if (peer < 0 || peer >= ranks_ || peer == self) {
      return Error{ErrorCode::InvalidArgument, fmt::format("peer={} is not another rank of {}", peer, ranks_)};
    }
    const std::lock_guard lock(mutex_);
    auto& left_for_me = ends_[{self, peer}];
    if (!left_for_me.empty()) {
      Fd mine = std::move(left_for_me.front());
      left_for_me.pop_front();
      return mine;
    }
    auto pair = loopback_pair();
    if (!pair) return pair.error();
    set_stream_options(pair->first.get());
    set_stream_options(pair->second.get());
    ends_[{peer, self}].push_back(std::move(pair->second));
    return std::move(pair->first);
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::map<std::pair<Rank, Rank>, std::deque<Fd>> ends_;  // {owner, peer}
};

std::vector<Membership> make_members(int ranks, const std::string& settings, std::span<const EndpointDevice> devices) {
  const auto streams = std::make_shared<LocalStreams>(ranks);
  const std::uint64_t communicator = random_u64();
  const int cores = count_cores(allowed_cores());
  std::vector<Membership> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Membership& one = all[static_cast<std::size_t>(rank)];
    one.rank = rank;
    one.ranks = ranks;
    one.communicator = communicator;
    one.settings = settings;
    one.control.resize(static_cast<std::size_t>(ranks));
    for (int peer = 0; peer < ranks; ++peer) {
      const EndpointDevice device = devices.empty() ? EndpointDevice() : devices[static_cast<std::size_t>(peer)];
      one.members.push_back(
          {{peer, process_id(), host_id(), device}, ::getpid(), host_name(), std::string(library_version()), cores});
    }
    one.open_stream = [streams, rank](Rank peer, Deadline, int, std::size_t) { return streams->open(rank, peer); };
  }
  return all;
}

}  // namespace

Result<std::vector<Membership>> join_local(int ranks, const std::string& settings,
                                           std::span<const EndpointDevice> devices) {
  if (ranks < 1 || ranks > kMaximumRanks) {
    return Error{ErrorCode::InvalidArgument, fmt::format("ranks={} must be 1 .. {}", ranks, kMaximumRanks)};
  }
  std::vector<Membership> all = make_members(ranks, settings, devices);
  // No other process takes part.
  const auto key = Key::none();
  for (std::size_t low = 0; low < all.size(); ++low) {
    for (std::size_t high = low + 1; high < all.size(); ++high) {
      auto pair = socket_pair();
      if (!pair) return pair.error();
      all[low].control[high] = {std::move(pair->first), Seal(key, true)};
      all[high].control[low] = {std::move(pair->second), Seal(key, false)};
    }
  }
  return all;
}

}  // namespace wreath
