// Makes links, and streams of messages over them.
#include "tests/unit/put/pair.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/fifo/access.hpp"

namespace wreath::put {

Pair::Pair(const FifoShape& its_shape, const Whims& whims, const PutOptions& options, int rails, int others)
    : shape(its_shape), network(whims), random(whims.seed) {
  Offer offers[2];
  for (int i : {0, 1}) {
    std::vector<std::unique_ptr<Adapter>> adapters;
    for (int rail = 0; rail < (i == 1 && others > 0 ? others : rails); ++rail) {
      adapters.push_back(network.make_adapter(rails == 1 && others == 0 ? fmt::format("test{}", i)
                                                                        : fmt::format("test{}.{}", i, rail)));
    }
    ends[i].port = PutPort::make(std::move(adapters)).value();
    TransportContext context{};
    context.self = {.rank = i, .process = 1, .host = 1};
    context.ranks = 2;
    context.shape = shape;
    ends[i].transport = PutTransport::make(ends[i].port, context, options).value();
    offers[i] = ends[i].transport->offer({.rank = 1 - i, .process = 1, .host = 1}).value();
  }
  for (int i : {0, 1}) {
    auto link = ends[i].transport->connect({.rank = 1 - i, .process = 1, .host = 1}, std::move(offers[1 - i])).value();
    ends[i].link.reset(static_cast<PutLink*>(link.release()));
  }
}

// The links may wait for puts that have not ended.
Pair::~Pair() {
  network.whims().held_chance = network.whims().idle_chance = network.whims().stop_chance = 0;
  while (network.step()) {
  }
  for (End& end : ends) static_cast<void>(end.link != nullptr && end.link->stop());
}

void Pair::take_word(int from) {
  if (auto word = ends[from].link->take_word()) ends[1 - from].words.push_back(*std::move(word));
}

bool Pair::give_word(int to) {
  End& end = ends[to];
  if (end.words.empty()) return true;
  Offer word = std::move(end.words.front());
  end.words.pop_front();
  const Status taken = end.link->on_word(std::move(word));
  if (!taken) error = taken.error();
  return static_cast<bool>(taken);
}

bool Pair::round() {
  bool moved = false;
  for (int i : {0, 1}) {
    const auto progress = ends[i].link->progress(true);
    if (!progress) {
      error = progress.error();
      return false;
    }
    moved = moved || *progress > 0;
    take_word(i);
    if (word_delay != 0 && random() % word_delay != 0) continue;
    if (!give_word(i)) return false;
  }
  for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) moved = network.step() || moved;
  // A link that connects again waits between its attempts, and does not sleep then.
  if (!moved && !(ends[0].link->arm() && ends[1].link->arm())) ::poll(nullptr, 0, 1);
  return true;
}

std::byte pattern(std::uint32_t lane, std::uint32_t message, std::size_t place) {
  return static_cast<std::byte>((lane * 31 + message * 7 + place + place / 251) & 0xff);
}

Stream::Stream(Pair& pair, int from, std::uint16_t lane)
    : pair_(pair),
      from_(*pair.ends[from].link),
      send_(from_.send_fifo(lane)),
      recv_(pair.ends[1 - from].link->recv_fifo(lane)),
      lane_(lane),
      first_(pair.shape.first_sequence) {
  from_.prepare(lane).value();
}

void Stream::send_all() {
  overwrite_given_back();
  while (sent_ < messages_.size() && send_one()) {
  }
}

bool Stream::send_one() {
  if (!has_credit(send_)) return false;
  Message& message = messages_[sent_];
  std::byte* data = nullptr;
  switch (message.way) {
    case Way::Staged: data = stage(send_); break;
    case Way::Ordinary:
      message.ordinary.resize(message.bytes);
      data = message.ordinary.data();
      break;
    case Way::Registered:
      message.registered = allocate(std::max<std::size_t>(message.bytes, 1)).value();
      data = message.registered.data();
      break;
  }
  for (std::size_t i = 0; i < message.bytes; ++i) data[i] = pattern(lane_, static_cast<std::uint32_t>(sent_), i);
  SlotHeader& slot = next_slot(send_);
  slot.epoch = pair_.shape.epoch;
  slot.signature = lane_ + 7;
  slot.bytes = static_cast<std::uint32_t>(message.bytes);
  slot.flags = message.way == Way::Registered ? kSlotLands : 0;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(data);
  publish(send_);
  ++sent_;
  return true;
}

void Stream::overwrite_given_back() {
  const std::size_t free = send_.consumed->value - first_;
  for (; released_ < free; ++released_) {
    Message& message = messages_[released_];
    std::ranges::fill(message.ordinary, std::byte{0xEE});
    if (message.way == Way::Registered) std::fill_n(message.registered.data(), message.bytes, std::byte{0xEE});
    message.registered = Memory();
  }
}

void Stream::take_all() {
  for (std::size_t before = seen_ + 1; before != seen_ && wrong_.empty();) {
    before = seen_;
    take_one();
  }
}

void Stream::post_places() {
  while (wants_ && recv_.posted - first_ < messages_.size() && recv_.posted - recv_.next < recv_.landings) {
    Message& message = messages_[recv_.posted - first_];
    if (message.bytes >= kLeastLandedBytes && registers_) {
      message.registered_place = allocate(message.bytes).value();
      message.place = message.registered_place.as<std::byte>();
    } else if (message.bytes >= kLeastLandedBytes) {
      message.ordinary_place.resize(message.bytes);
      message.place = message.ordinary_place;
    }
    recv_.landing[recv_.posted & (recv_.landings - 1)] = {message.place.data(), recv_.posted,
                                                          static_cast<std::uint32_t>(message.place.size())};
    ++recv_.posted;
  }
}

void Stream::take_one() {
  post_places();
  const SlotHeader* slot = peek(recv_);
  if (slot == nullptr || !wrong_.empty()) return;
  if (seen_ == messages_.size()) {
    wrong_ = fmt::format("lane {}: message {} was never sent", lane_, slot->sequence);
    return;
  }
  Message& message = messages_[seen_];
  const Located located = locate(recv_, *slot);
  check(message, *slot, located.data);
  if (!message.place.empty() && located.data == message.place.data()) ++landed_;
  std::ranges::fill(message.place, std::byte{0xDD});
  consume(recv_);
  if (++seen_ == messages_.size()) check_places();
}

void Stream::check(const Message& message, const SlotHeader& slot, const std::byte* data) {
  const auto number = static_cast<std::uint32_t>(seen_);
  if (slot.sequence != first_ + number || slot.bytes != message.bytes || slot.signature != lane_ + 7) {
    wrong_ = fmt::format("lane {}: message {} has sequence {}, {} bytes, signature {}", lane_, seen_, slot.sequence,
                         slot.bytes, slot.signature);
  }
  for (std::size_t i = 0; i < message.bytes && wrong_.empty(); ++i) {
    if (data[i] == pattern(lane_, number, i)) continue;
    wrong_ = fmt::format("lane {}: message {} of {} bytes differs at {}", lane_, seen_, message.bytes, i);
  }
}

// The places are their owner's again once the messages are consumed.
void Stream::check_places() {
  for (std::size_t i = 0; i < messages_.size() && wrong_.empty(); ++i) {
    const auto own = [](std::byte each) { return each == std::byte{0xDD}; };
    if (std::ranges::all_of(messages_[i].place, own)) continue;
    wrong_ = fmt::format("lane {}: the place of message {} was written after that was consumed", lane_, i);
  }
}

std::vector<Stream> streams_both_ways(Pair& pair, int messages) {
  std::vector<Stream> streams;
  for (std::uint16_t lane = 0; lane < pair.shape.lanes; ++lane) {
    for (const int from : {0, 1}) {
      streams.emplace_back(pair, from, lane);
      for (int i = 0; i < messages; ++i) {
        streams.back().add(i % 3 == 0 ? pair.shape.slot_bytes : i % 3 == 1 ? 300U : 8U, static_cast<Way>(i % 3));
      }
    }
  }
  return streams;
}

bool step_all(std::vector<Stream>& streams) {
  bool all = true;
  for (Stream& stream : streams) {
    stream.send_all();
    stream.take_one();
    EXPECT_EQ(stream.wrong(), "");
    all = all && stream.done() && stream.given_back();
  }
  return all;
}

}  // namespace wreath::put
