// Makes members of one process whose every message goes through rank 0, as messages between many hosts do: no pair has
// a connection. A test with them relies only on the interface of Members.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/progress.hpp"
#include "src/membership/members.hpp"

namespace wreath::testing_support {

// Holds the inboxes of all ranks.
class Route {
 public:
  struct Letter {
    Rank from = 0;
    Rank to = 0;
    bool loss = false;  // `from` is dead
    std::vector<std::byte> bytes;
    Offer descriptors;
  };

  explicit Route(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}

  void open(Rank rank, Progress& progress) {
    const std::lock_guard lock(mutex_);
    of(rank).progress = &progress;
  }
  void close(Rank rank) {
    const std::lock_guard lock(mutex_);
    of(rank).progress = nullptr;
    of(rank).closed = true;
  }
  void send(Letter letter) {
    const std::lock_guard lock(mutex_);
    Box& sender = of(letter.from);
    if (sender.letters_left && (*sender.letters_left)-- == 0) die(letter.from);
    if (sender.dead) return;
    const Rank next = letter.from == 0 ? letter.to : 0;
    push(next, std::move(letter));
  }
  // Sends on a letter that rank 0 has taken and that is for another rank.
  void pass_on(Letter letter) {
    const std::lock_guard lock(mutex_);
    ++passed_on_;
    const Rank next = letter.to;
    push(next, std::move(letter));
  }
  std::deque<Letter> take(Rank rank) {
    const std::lock_guard lock(mutex_);
    if (of(rank).dead) return {};
    return std::exchange(of(rank).letters, {});
  }
  // Returns whether a letter of `rank` still waits in a box whose owner will take it.
  bool has_letters_of(Rank rank) {
    const std::lock_guard lock(mutex_);
    for (const Box& box : boxes_) {
      if (box.closed || box.dead) continue;
      for (const Letter& letter : box.letters) {
        if (letter.from == rank || &box == boxes_.data()) return true;
      }
    }
    return false;
  }
  // Kills `rank`, which is any but 0. The others learn of the death after all letters that it sent before.
  void kill(Rank rank) {
    const std::lock_guard lock(mutex_);
    die(rank);
  }
  // Makes the rank die when it would send one more letter than `letters`.
  void kill_after(Rank rank, std::size_t letters) {
    const std::lock_guard lock(mutex_);
    of(rank).letters_left = letters;
  }
  bool is_dead(Rank rank) {
    const std::lock_guard lock(mutex_);
    return of(rank).dead;
  }
  // Returns how many letters rank 0 passed on.
  std::size_t passed_on() {
    const std::lock_guard lock(mutex_);
    return passed_on_;
  }

 private:
  struct Box {
    std::deque<Letter> letters;
    Progress* progress = nullptr;
    bool closed = false;
    bool dead = false;
    std::optional<std::size_t> letters_left;  // before it dies
  };

  Box& of(Rank rank) { return boxes_[static_cast<std::size_t>(rank)]; }
  void push(Rank next, Letter letter) {
    if (of(next).closed || of(next).dead) return;
    of(next).letters.push_back(std::move(letter));
    if (of(next).progress != nullptr) of(next).progress->kick();
  }
  void die(Rank rank) {
    if (of(rank).dead) return;
    of(rank).dead = true;
    for (Rank peer = 0; peer < static_cast<Rank>(boxes_.size()); ++peer) {
      if (peer != rank) push(0, Letter{rank, peer, true, {}, {}});
    }
  }

  std::mutex mutex_;
  std::vector<Box> boxes_;
  std::size_t passed_on_ = 0;
};

class RoutedMembers final : public Members, public Progress::Client {
 public:
  RoutedMembers(Rank self, std::vector<Member> table, std::shared_ptr<Route> route)
      : Members(self, std::move(table)), route_(std::move(route)), lost_(static_cast<std::size_t>(ranks())) {
    // Only members with connections watch each other's processes.
    for (const MessageKind kind : {MessageKind::Process, MessageKind::Ended}) {
      handlers_.add(kind, [](Rank, ControlMessage&) {});
    }
  }
  ~RoutedMembers() override { RoutedMembers::stop(); }

  Status start(Progress& progress) override {
    WREATH_TRY(handlers_.complete());
    progress_ = &progress;
    route_->open(rank(), progress);
    progress.add(*this);
    progress.kick();  // for letters that came before
    return {};
  }
  void stop() override {
    if (progress_ == nullptr) return;
    route_->close(rank());
    progress_->remove(*this);
  }
  void send(Rank to, ControlMessage message) override {
    std::vector<std::byte> bytes = encode_control(message);
    message.offer.bytes.clear();
    route_->send({rank(), to, false, std::move(bytes), std::move(message.offer)});
  }
  void broadcast(const ControlMessage& message) override {
    for (Rank peer = 0; peer < ranks(); ++peer) {
      if (peer != rank()) route_->send({rank(), peer, false, encode_control(message), {}});
    }
  }
  bool under_way() override { return route_->has_letters_of(rank()); }
  bool reaches(Rank peer) const override { return !lost_[static_cast<std::size_t>(peer)]; }
  std::string address_to(Rank) const override { return {}; }

 private:
  void on_event(std::uint64_t, std::uint32_t) override {}
  Driven drive() override {
    std::deque<Route::Letter> letters = route_->take(rank());
    for (Route::Letter& letter : letters) act_on(letter);
    return letters.empty() ? Driven::Nothing : Driven::Moved;
  }
  int begin_wait(std::vector<int>&) override { return Progress::kWaitMs; }
  void end_wait() override {}

  void act_on(Route::Letter& letter) {
    if (letter.to != rank()) return route_->pass_on(std::move(letter));
    if (letter.loss) {
      lost_[static_cast<std::size_t>(letter.from)] = true;
      return handlers_.lost({letter.from, Loss::How::Ended, "its process has ended"});
    }
    auto message = decode_control(letter.bytes).value();
    message.offer.descriptors = std::exchange(letter.descriptors.descriptors, {});
    handlers_.message(letter.from, std::move(message));
  }

  std::shared_ptr<Route> route_;
  std::vector<std::atomic<bool>> lost_;
  Progress* progress_ = nullptr;
};

}  // namespace wreath::testing_support
