// A queue gathers the puts of one channel, hands them to the adapter at one doorbell, and knows which of them have
// ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/put/port.hpp"

namespace wreath {

// Says for what a put is.
struct PutOwner {
  enum class Kind : std::uint8_t { Probe, Message, Credit };
  Kind kind = Kind::Probe;
  std::uint16_t lane = 0;
  std::uint32_t sequence = 0;  // of the message
};

class PutQueue {
 public:
  PutQueue(PutPort& port, std::unique_ptr<Channel> channel);
  PutQueue(PutQueue&&) noexcept = default;
  PutQueue& operator=(PutQueue&&) = delete;
  ~PutQueue();

  Channel& channel() { return *channel_; }
  const Channel& channel() const { return *channel_; }
  // Returns how many more puts may be added.
  std::size_t room() const { return owners_.size() - (next_ - first_); }
  // Adds a put, whose memory stays as it is until it has ended. `awaited` says that someone waits for that.
  void add(const Put& put, const PutOwner& owner, bool awaited);
  // Hands over all that was added, as far as the adapter takes it. Returns the bytes that it took.
  Result<std::size_t> flush();
  // Calls each(owner) for the puts whose end `number` tells. Returns false for a number that no put has.
  template <typename Each>
  bool on_ended(std::uint64_t number, Each each);
  // Returns whether the adapter has taken all puts.
  bool all_taken() const { return waiting_.empty(); }
  // Returns whether the adapter has taken all puts of messages.
  bool messages_taken() const;
  // Returns whether all puts have ended.
  bool idle() const { return next_ == first_; }
  // Returns whether puts of messages have not ended. What else was put, as credit, is of no use to a peer that left.
  bool carries_messages() const;
  // Forgets all puts, for a channel that was reset. Numbers go on.
  void clear();

 private:
  struct Owner {
    PutOwner owner;
    bool ended = false;
  };
  Owner& owner_of(std::uint64_t number) { return owners_[number % owners_.size()]; }
  const Owner& owner_of(std::uint64_t number) const { return owners_[number % owners_.size()]; }

  PutPort* port_;
  std::unique_ptr<Channel> channel_;
  std::vector<Put> waiting_;   // those that the adapter has not taken
  std::vector<Owner> owners_;  // of the puts first_ to next_, by number
  std::uint64_t first_ = 0;
  std::uint64_t next_ = 0;
  std::uint32_t unreported_ = 0;  // puts since the last one that reports
};

template <typename Each>
bool PutQueue::on_ended(std::uint64_t number, Each each) {
  if (number - first_ >= next_ - first_) return number < first_;
  const bool ordered = port_->limits().ordered;
  for (std::uint64_t at = ordered ? first_ : number; at <= number; ++at) {
    if (!owner_of(at).ended) each(owner_of(at).owner);
    owner_of(at).ended = true;
  }
  while (first_ != next_ && owner_of(first_).ended) ++first_;
  return true;
}

}  // namespace wreath
