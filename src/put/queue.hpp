// A queue gathers the puts of one channel, hands them to the adapter at one doorbell, and knows which of them have
// ended. A link has so many for each rail, and uses those of the rails that work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/put/port.hpp"

namespace wreath {

// Says for what a put is.
struct PutOwner {
  enum class Kind : std::uint8_t { Probe, Message, Credit, Place };
  Kind kind = Kind::Probe;
  std::uint16_t lane = 0;
  std::uint32_t sequence = 0;  // of the message, or told as credit
};

class PutQueue {
 public:
  PutQueue(PutPort& port, std::size_t rail, std::unique_ptr<Channel> channel);
  PutQueue(PutQueue&&) noexcept = default;
  PutQueue& operator=(PutQueue&&) = delete;
  ~PutQueue();

  std::size_t rail() const { return rail_; }
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
  // Returns whether puts are outstanding, and none has ended for as long as the adapter may be silent. The caller asks
  // now and then, since the time counts from question to question.
  bool is_silent(std::int64_t now_ns);
  // Returns whether a put has ended since this one's queue was found silent.
  bool has_ended_since(const PutQueue& silent) const { return ended_ns_ > silent.silent_from_ns(); }
  // Asks once more after as long a silence. Returns whether this was the second time.
  bool confirm_silence(std::int64_t now_ns);
  // Returns whether puts of messages have not ended. What else was put, as credit, is of no use to a peer that left.
  bool carries_messages() const;
  // Forgets all puts, for a channel that was reset. Numbers go on.
  void clear();

 private:
  struct Owner {
    PutOwner owner;
    std::uint32_t bytes = 0;
    bool ended = false;
  };
  void count_ended(Owner& put);
  std::int64_t silent_from_ns() const { return asked_ns_ + silent_ms_ * kNsPerMs; }
  Owner& owner_of(std::uint64_t number) { return owners_[number % owners_.size()]; }
  const Owner& owner_of(std::uint64_t number) const { return owners_[number % owners_.size()]; }

  PutPort* port_;
  std::size_t rail_;
  bool ordered_;            // the adapter's puts
  std::int64_t silent_ms_;  // PutLimits::silent_ms
  std::unique_ptr<Channel> channel_;
  std::vector<Put> waiting_;   // those that the adapter has not taken
  std::vector<Owner> owners_;  // of the puts first_ to next_, by number
  std::uint64_t first_ = 0;
  std::uint64_t next_ = 0;
  std::uint32_t unreported_ = 0;  // puts since the last one that reports
  std::uint64_t ended_ = 0;       // puts that have ended so far
  std::uint64_t ended_then_ = 0;  // at the last question whose answer was another
  std::int64_t asked_ns_ = 0;     // when that was
  std::int64_t ended_ns_ = 0;     // the last end, where there are several rails
  bool was_silent_ = false;       // since then, and was asked about again
};

template <typename Each>
bool PutQueue::on_ended(std::uint64_t number, Each each) {
  if (number - first_ >= next_ - first_) return number < first_;
  for (std::uint64_t at = ordered_ ? first_ : number; at <= number; ++at) {
    Owner& put = owner_of(at);
    if (put.ended) continue;
    count_ended(put);
    each(put.owner);
  }
  while (first_ != next_ && owner_of(first_).ended) ++first_;
  return true;
}

// The queues of a link, those of a rail side by side. Rails are told apart by a bit each.
class PutQueues {
 public:
  void add(PutQueue queue) { all_.push_back(std::move(queue)); }
  std::vector<PutQueue>& all() { return all_; }
  const std::vector<PutQueue>& all() const { return all_; }

  // Counts the rails that there are queues for.
  std::size_t count_rails() const { return all_.empty() ? 0 : all_.back().rail() + 1; }
  // Lets no other link wait for the channels.
  void give_up();
  // Leaves only the first rails, as many as the peer has.
  void keep(std::size_t rails);
  // Gives messages to the queues of these rails from now on.
  void use(std::uint32_t rails);
  std::uint32_t rails() const { return rails_; }
  std::span<PutQueue* const> used() const { return used_; }
  PutQueue& in_turn(std::size_t turn) const { return *used_[turn % used_.size()]; }
  // Returns a queue of a rail that is used.
  PutQueue& of_rail(std::size_t rail, std::size_t turn) const;

 private:
  std::vector<PutQueue> all_;
  std::vector<PutQueue*> used_;
  std::uint32_t rails_ = 0;
};

}  // namespace wreath
