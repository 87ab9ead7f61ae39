// Members of whom each pair has a connection of its own.
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

// All would be a descriptor for each pair of ranks; with one, who dies with its watcher would not be missed.
inline constexpr int kProcessWatchers = 4;

class PairwiseMembers final : public Members, public Progress::Client {
 public:
  // `connections[r]` leads to rank r; the own entry is empty.
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
    std::vector<Fd> descriptors;  // travel with the first byte
  };
  struct Peer {
    Connection connection;
    // Tells when the peer is gone, though a child of its may hold the connection; of a rank of this host in another
    // process.
    Fd process;
    std::mutex mutex;  // of `outgoing`, whose frames are sealed in their order
    std::deque<Frame> outgoing;
    std::vector<std::byte> incoming;
    std::deque<Fd> descriptors;
    std::atomic<bool> lost = false;
  };

  // The progress thread's. An event's token is the rank whose connection it is, or the number of ranks + the rank whose
  // process it is.
  void on_event(std::uint64_t token, std::uint32_t events) override;
  Driven drive() override { return flush() ? Driven::Waiting : Driven::Nothing; }
  void begin_wait(std::vector<int>&) override {}
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
