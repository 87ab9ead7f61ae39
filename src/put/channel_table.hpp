// ChannelTable finds the channels of an adapter by their index, which is the lowest that is free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wreath {

template <typename T>
class ChannelTable {
 public:
  // Returns the index of the next channel to be added.
  std::size_t next() const {
    return static_cast<std::size_t>(std::find(channels_.begin(), channels_.end(), nullptr) - channels_.begin());
  }
  // Adds a channel, whose index was next().
  void add(T& channel) {
    if (channel.index() == channels_.size()) channels_.push_back(nullptr);
    channels_[channel.index()] = &channel;
  }
  // Returns false for a channel that was not added.
  bool remove(const T& channel) {
    if (find(channel.index()) != &channel) return false;
    channels_[channel.index()] = nullptr;
    return true;
  }
  // Returns null where there is none.
  T* find(std::size_t index) const { return index < channels_.size() ? channels_[index] : nullptr; }
  // Returns whether there was a channel ever.
  bool was_used() const { return !channels_.empty(); }
  template <typename Visit>
  void each(Visit visit) const {
    for (T* const channel : channels_) {
      if (channel != nullptr) visit(*channel);
    }
  }
  template <typename Test>
  bool any(Test test) const {
    return std::ranges::any_of(channels_, [&](const T* channel) { return channel != nullptr && test(*channel); });
  }

 private:
  std::vector<T*> channels_;  // null for none
};

}  // namespace wreath
