// PairwiseMembers has one connection for each pair of members.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/progress.hpp"
#include "src/bootstrap/seal.hpp"
#include "src/membership/members.hpp"

namespace wreath {

// So many ranks of a host watch each process. With all of them, each pair of ranks would need a descriptor. With one,
// nobody would notice a process that dies together with its watcher.
inline constexpr int kProcessWatchers = 4;

class PairwiseMembers final : public Members, public Progress::Client {
 public:
  // `connections[r]` leads to rank r. The entry of this rank is empty.
  PairwiseMembers(Rank self, std::vector<Member> table, std::vector<Connection> connections);
  ~PairwiseMembers() override { PairwiseMembers::stop(); }

  Status start(Progress& progress) override;
  void stop() override;
  void send(Rank to, ControlMessage message) override;
  void broadcast(const ControlMessage& message) override;
  bool under_way() override;
  bool reaches(Rank peer) const override { return !of(peer).lost; }
  std::string address_to(Rank peer) const override;

 private:
  struct Frame {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    // The descriptors travel with the first byte.
    std::vector<Fd> descriptors;
  };
  struct Peer {
    Connection connection;
    // The descriptor tells when the peer's process ends, even where a child of that process holds the connection. Only
    // a peer in another process of this host has one.
    Fd process;
    // The mutex guards `outgoing`, whose frames are sealed in their order.
    std::mutex mutex;
    std::deque<Frame> outgoing;
    std::vector<std::byte> incoming;
    std::deque<Fd> descriptors;
    std::atomic<bool> lost = false;
  };

  // The progress thread calls these. An event of a connection has the peer's rank as token. An event of a process has
  // the number of ranks plus the peer's rank.
  void on_event(std::uint64_t token, std::uint32_t events) override;
  Driven drive() override { return flush() ? Driven::Waiting : Driven::Nothing; }
  int begin_wait(std::vector<int>&) override { return flush() ? Progress::kWaitMs : Progress::kForever; }
  void end_wait() override {}

  Peer& of(Rank peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void enqueue(Peer& peer, const Content& content, std::vector<Fd> descriptors);
  bool flush();
  bool flush(Peer& peer);
  void lose(Rank from, Loss::How how, const std::string& reason);
  void on_readable(Rank from);
  bool receive(Rank from);
  bool parse(Rank from);
  Result<std::size_t> take_frame(Rank from, std::size_t at);

  void offer_process();
  void watch_process(Rank from, Offer& offer);
  bool on_process_end(Rank peer);
  void tell_of_end(Rank gone);
  void on_ended(Rank from, std::uint32_t index);

  std::vector<std::unique_ptr<Peer>> peers_;
  Progress* progress_ = nullptr;  // since start()
};

}  // namespace wreath
