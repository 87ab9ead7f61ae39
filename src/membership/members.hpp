// Members knows the members of a communicator as one rank sees them, and sends them messages. Only
// this class knows the connections; other rooms name a rank.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/membership/control_handlers.hpp"
#include "src/membership/messages.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Progress;

class Members {
 public:
  Members(Rank self, std::vector<Member> table);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  virtual ~Members() = default;

  Rank rank() const { return self_; }
  int ranks() const { return static_cast<int>(table_.size()); }
  const std::vector<Member>& table() const { return table_; }
  const Member& operator[](Rank rank) const { return table_[static_cast<std::size_t>(rank)]; }
  // Names a rank, for example as "rank 3 (host h1, pid 4711)".
  std::string name(Rank rank) const;
  bool of_one_host(Rank a, Rank b) const { return (*this)[a].endpoint.host == (*this)[b].endpoint.host; }
  // Says whether `peer` has said goodbye. Any thread may ask.
  bool has_left(Rank peer) const { return left_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire); }

  // Rooms add their handlers before start().
  ControlHandlers& handlers() { return handlers_; }
  // Lets `progress`, which outlives this object, receive the members' messages. Returns System where a kind of message
  // has no handler.
  virtual Status start(Progress& progress) = 0;
  // Waits until no handler runs, and no handler runs afterwards. A handler must not call it.
  virtual void stop() = 0;

  // Sends a message to one rank. Any thread may send. It never blocks, and messages to one rank arrive in the order in
  // which they were sent. Descriptors of the offer go along to a rank of the same host.
  virtual void send(Rank to, ControlMessage message) = 0;
  // Sends a message to every other rank, without descriptors.
  virtual void broadcast(const ControlMessage& message) = 0;
  // Tries to send the messages that are kept. Returns true while any message is unsent or may be on its way. Any thread
  // may ask.
  virtual bool under_way() = 0;
  // Says whether `peer` is not lost.
  virtual bool reaches(Rank peer) const = 0;
  // Returns the IP by which `peer` reaches this host. It is empty where the peer is on the same host.
  virtual std::string address_to(Rank peer) const = 0;

 protected:
  ControlHandlers handlers_;

 private:
  Rank self_;
  std::vector<Member> table_;
  std::vector<std::atomic<bool>> left_;
};

}  // namespace wreath
