// Records what one rank hears of the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/membership/control_handlers.hpp"

namespace wreath::members_tests {

// Handles every kind of message and records what came.
class Notes {
 public:
  void handle(ControlHandlers& handlers) {
    for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
      handlers.add(static_cast<MessageKind>(kind), [this](Rank, ControlMessage& message) {
        for (int& descriptor : message.offer.descriptors) keep(Fd(std::exchange(descriptor, -1)));
        message.offer.descriptors.clear();
        note(message.text);
      });
    }
    handlers.add_lost(
        [this](const Loss& loss) { note((loss.how == Loss::How::Broken ? "lost: " : "closed: ") + loss.reason); });
    handlers.add_unable([this](const Error& error) { note(error.message); });
  }
  // Waits up to 10 s for `count` texts. Returns the texts that came from all ranks, and why no more come.
  std::vector<std::string> heard(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return heard_.size() >= count; });
    return heard_;
  }
  // Returns the descriptors that came, and forgets them.
  std::vector<Fd> descriptors() {
    const std::lock_guard lock(mutex_);
    return std::exchange(descriptors_, {});
  }

 private:
  void keep(Fd descriptor) {
    const std::lock_guard lock(mutex_);
    descriptors_.push_back(std::move(descriptor));
  }
  void note(const std::string& text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    heard_.push_back(text);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  std::vector<Fd> descriptors_;
};

}  // namespace wreath::members_tests
