// Events change the state of the link when any link polls. The next progress() reports what they found.
#include "src/put/link.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace wreath {
namespace {

// A link that is closed waits for puts that have not ended, until so many milliseconds bring no end of one.
constexpr int kLingerMs = 2000;
// A lane's credit puts that came since the peer last polled: two by halves of the window, two by halves of the large
// messages, and one more of each kind when the window is full.
constexpr std::uint32_t kNewCredits = 6;

// Returns how many puts that tell may be under way to this end. All may go over one channel. The places of a window of
// large messages may be named while the names of the window before wait here.
std::uint32_t most_tells(const FifoShape& shape, const PutLimits& limits) {
  const std::uint32_t parts = limits.ordered ? 0 : shape.slot_count * (kMostParts - 1);
  const std::uint32_t names = 2 * shape.slot_count;
  return shape.lanes * (window_messages(shape) + parts + names + kNewCredits + kMostCredits);
}

}  // namespace

PutLink::PutLink(Rank peer, std::shared_ptr<PutPort> port, const FifoShape& shape, const PutOptions& options)
    : peer_(peer),
      port_(std::move(port)),
      wires_(shape),
      landings_(*port_, wires_.shape(), wires_, lanes_, queues_, options.waiting),
      sender_(*port_, wires_.shape(), wires_, lanes_, queues_, landings_),
      receiver_(*port_, wires_.shape(), lanes_, landings_),
      recovery_(peer, *port_, queues_, sender_, receiver_, options.reconnect_ms) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) {
    lanes_.push_back(std::make_unique<PutLane>(*port_, wires_[i], wires_.shape()));
  }
}

Result<std::unique_ptr<PutLink>> PutLink::make(Rank peer, std::shared_ptr<PutPort> port, const FifoShape& shape,
                                               const PutOptions& options) {
  std::unique_ptr<PutLink> link(new PutLink(peer, std::move(port), shape, options));
  PutPort& own = *link->port_;
  for (std::uint32_t i = 0; i < options.channels * own.rails(); ++i) {
    const std::size_t rail = i / options.channels;
    auto channel = own.make_channel(rail, most_tells(shape, own.limits()), *link);
    if (!channel) return link->explain(channel.error());
    link->queues_.add(PutQueue(own, rail, *std::move(channel)));
  }
  link->queues_.use(~0U);
  const Status slots = make_slots(*link->lanes_[0], link->wires_.shape(), false);
  if (!slots) return link->explain(slots.error());
  return link;
}

// The adapter must still deliver all that was put: messages whose memory was given back are nowhere else.
PutLink::~PutLink() {
  for (int quiet_ms = 0; quiet_ms < kLingerMs && closing_loses_data();) {
    const auto moved = progress(false);
    quiet_ms = moved && *moved > 0 ? 0 : quiet_ms + 1;
    ::poll(nullptr, 0, 1);
  }
  for (int waited_ms = 0; waited_ms < kLingerMs && !stop(); ++waited_ms) ::poll(nullptr, 0, 1);
  queues_.use(0);
  queues_.all().clear();
  for (const auto& lane : lanes_) port_->remove_staging(lane->wire.send_staging.data());
}

PutOffer PutLink::offer() const {
  PutOffer offer;
  for (const PutQueue& queue : queues_.all()) offer.channels.push_back(queue.channel().address());
  offer.small = lanes_[0]->small.remote();
  return offer;
}

Status PutLink::connect(const PutOffer& theirs) {
  if (theirs.small.size() != port_->rails()) {
    log_warning("{} to rank {}: the peer has {} adapter{}, and {} are here", path(), peer_, theirs.small.size(),
                theirs.small.size() == 1 ? "" : "s", port_->rails());
  }
  queues_.keep(theirs.small.size());
  if (queues_.count_rails() == 1) sender_.on_one_rail();
  present_.store(queues_.rails(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < queues_.all().size(); ++i) {
    const Status connected = queues_.all()[i].channel().connect(theirs.channels[i]);
    if (!connected) return explain(connected.error());
  }
  lanes_[0]->peer.small = theirs.small;
  return {};
}

Status PutLink::prepare(std::uint16_t lane) {
  WREATH_TRY(wires_.prepare(lane));
  port_->add_staging({wires_[lane].send_staging.data(), staging_bytes(wires_.shape())});
  return {};
}

// The host reads whole messages for their checksums.
Status PutLink::let_in(const DeviceRange& memory) {
  if (!wires_.shape().checked) return port_->let_in(memory);
  return Error{ErrorCode::Unavailable, "messages carry checksums (WREATH_CHECK=1), which the host makes"};
}

Result<std::size_t> PutLink::progress(bool expecting) {
  if (broken_) return *broken_;
  Status done = port_->poll_in_turn(turn_);
  // Between calls nobody arms.
  if (done && !broken_ && !expecting) finds_silence();
  if (done && !broken_) done = recovery_.step(new_words_);
  if (done && !broken_ && recovery_.connected()) {
    landings_.name_places();
    const auto sent = sender_.send_some(new_words_);
    if (sent) {
      moved_ += *sent;
    } else {
      done = sent.error();
    }
  }
  if (!done && !broken_) fail(done.error());
  if (broken_) return *broken_;
  return std::exchange(moved_, 0);
}

void PutLink::take(std::size_t rail, const PutEvent& event) {
  ++moved_;
  Status taken;
  switch (event.kind) {
    case PutEvent::Kind::Ended: taken = take_ended(rail, event); break;
    case PutEvent::Kind::Told: taken = take_told(rail, event.told); break;
    case PutEvent::Kind::Lost:
      // Adapters whose channels are shared connect anew by themselves: with no other one there is nothing to try.
      if (event.retryable && (queues_.count_rails() > 1 || !port_->limits().shared)) {
        recovery_.on_lost(rail, event.error);
      } else {
        taken = end_of(event);
      }
      break;
  }
  if (!taken && !broken_) fail(taken.error());
}

// Returns the error of a loss that ends the link. An adapter that others share may be lost for their sake, which is not
// the peer's doing.
Error PutLink::end_of(const PutEvent& loss) {
  port_->listen();
  Error error{loss.retryable ? loss.error.code : ErrorCode::PeerLost, loss.error.message};
  if (queues_.count_rails() < port_->rails()) {
    error.message += fmt::format("; no other adapter leads there: {} are here, and {} at the peer", port_->rails(),
                                 queues_.count_rails());
  }
  if (!port_->trouble().empty()) error.message += "; " + port_->trouble();
  return error;
}

Status PutLink::take_ended(std::size_t rail, const PutEvent& event) {
  recovery_.on_ended(rail);
  const auto queue = std::ranges::find_if(queues_.all(), [&](const PutQueue& each) {
    return each.rail() == rail && each.channel().index() == event.channel;
  });
  if (queue->on_ended(event.number, [this](const PutOwner& owner) { sender_.on_ended(owner); })) return {};
  return Error{ErrorCode::System, fmt::format("put {} has ended, which was never begun", event.number)};
}

Status PutLink::take_told(std::size_t rail, std::uint32_t bits) {
  if (broken_) return {};
  Told told = unpack(bits, port_->limits().told_bits);
  const bool names_place = told.lane >= kMostLanes;
  if (names_place) told.lane -= kMostLanes;
  if (told.lane >= lanes_.size()) {
    return Error{ErrorCode::PeerLost, fmt::format("told word: lane is {}, must be below {}", told.lane, lanes_.size())};
  }
  if (names_place) return landings_.on_told(told);
  if (told.part == kCreditPart) return sender_.on_credit(told);
  const auto published = receiver_.on_told(rail, told);
  if (!published) return published.error();
  moved_ += *published;
  return {};
}

// Credit holds no call: a peer that has left takes none, and some adapters refuse it for ever then.
bool PutLink::send_blocked() const {
  if (broken_) return false;
  if (!std::ranges::all_of(queues_.all(), [](const PutQueue& queue) { return queue.messages_taken(); })) return true;
  return recovery_.peer_waits() || (recovery_.mends() && !idle()) || sender_.repeats();
}

// A message that was copied is counted only while its channels are lost: an adapter takes care of it else.
std::size_t PutLink::in_flight() const {
  const bool mends = !broken_ && (recovery_.mends() || sender_.repeats());
  return wires_.held_bytes(kPutHeaderBytes) + (mends ? sender_.unended_bytes() : 0);
}

// Returns whether the peer has all that was put, as far as this end knows. Credit to a peer that has left is lost at
// once where channels are shared.
bool PutLink::idle() const {
  const bool shared = port_->limits().shared;
  const auto carries = [shared](const PutQueue& queue) { return shared ? queue.carries_messages() : !queue.idle(); };
  return std::ranges::none_of(queues_.all(), carries) && (!recovery_.mends() || sender_.unended_bytes() == 0);
}

bool PutLink::closing_loses_data() const {
  if (broken_ || queues_.all().empty() || !port_->poll()) return false;
  const bool carries =
      std::ranges::any_of(queues_.all(), [](const PutQueue& queue) { return queue.carries_messages(); });
  return carries || (recovery_.mends() && sender_.unended_bytes() > 0) || sender_.repeats();
}

bool PutLink::needs_progress() const {
  if (broken_) return false;
  if (recovery_.settles() || (recovery_.connected() && sender_.credit_waits())) return true;
  const bool polled = port_->limits().polled;
  return !std::ranges::all_of(queues_.all(),
                              [&](const PutQueue& queue) { return polled ? queue.idle() : queue.all_taken(); });
}

// Takes a channel for lost whose adapter says nothing: an adapter whose port came up again may have forgotten its puts.
// Returns whether something may have come meanwhile.
bool PutLink::finds_silence() {
  if (broken_ || !recovery_.connected()) return false;
  bool found = false;
  for (PutQueue& queue : queues_.all()) {
    if (queue.idle() || !queue.is_silent(now_ns()) || (port_->limits().shared && !peer_polls(queue))) continue;
    // A process that was stopped may have events that it has not seen.
    found = true;
    if (!port_->poll() || broken_ || !queue.is_silent(now_ns())) continue;
    recovery_.on_lost(queue.rail(),
                      {ErrorCode::PeerLost, fmt::format("the adapter has said nothing for {} ms of what "
                                                        "it was to put",
                                                        port_->adapter(queue.rail()).limits().silent_ms)});
  }
  return found;
}

// Puts over shared channels may not end while the peer does not poll. One that polls lets puts end over its other
// rails, twice, with a while between.
bool PutLink::peer_polls(PutQueue& silent) {
  const std::uint32_t others = queues_.rails() & ~(1U << silent.rail());
  bool ended = false;
  bool idle = true;
  for (const PutQueue* queue : queues_.used()) {
    if ((others & 1U << queue->rail()) == 0) continue;
    ended = ended || queue->has_ended_since(silent);
    idle = idle && queue->idle();
  }
  if (!ended && idle) sender_.probe(others);
  return ended && silent.confirm_silence(now_ns());
}

// Puts that the adapter did not take are tried again without an event. So is a message that waits for its place: it
// waits so shortly that others get the core, and no sleep is made.
bool PutLink::arm() {
  if (finds_silence() || (!broken_ && recovery_.waits_for_time())) return false;
  if (!broken_ && recovery_.connected() && landings_.any_waits()) {
    ::sched_yield();
    return false;
  }
  for (const PutQueue& queue : queues_.all()) {
    if (!broken_ && !queue.all_taken()) return false;
  }
  // The next round polls.
  turn_ = port_->turn();
  return port_->arm();
}

bool PutLink::stop() {
  if (stopped_) return true;
  if (!broken_) fail({ErrorCode::Aborted, "stopped"});
  bool stopped = true;
  for (PutQueue& queue : queues_.all()) stopped = queue.channel().stop() && stopped;
  // The adapter may need its events taken, to let go of memory.
  static_cast<void>(port_->poll());
  stopped_ = stopped;
  return stopped_;
}

std::string PutLink::held_by() const { return stopped_ ? std::string() : path(); }

std::optional<Offer> PutLink::take_word() {
  for (PutWord& word : std::exchange(new_words_, {})) words_.push_back(encode_word(word));
  if (words_.empty()) return std::nullopt;
  Offer word = std::move(words_.front());
  words_.pop_front();
  return word;
}

Status PutLink::on_word(Offer word) {
  if (broken_) return {};
  auto decoded = decode_word(word.bytes, queues_.all().size(), static_cast<std::uint16_t>(lanes_.size()));
  const Status accepted = decoded ? accept(*std::move(decoded)) : Status(decoded.error());
  if (accepted) return {};
  fail(accepted.error());
  return *broken_;
}

Status PutLink::accept(PutWord word) {
  if (const auto* want = std::get_if<WantSlots>(&word)) {
    WREATH_TRY(landings_.on_want(*want));
    const auto have = receiver_.on_want(*want);
    if (!have) return have.error();
    new_words_.emplace_back(*have);
    return {};
  }
  if (const auto* have = std::get_if<HaveSlots>(&word)) return sender_.on_slots(*have);
  if (auto* channels = std::get_if<NewChannels>(&word)) {
    WREATH_TRY(recovery_.on_new_channels(std::move(*channels)));
  } else if (auto* paused = std::get_if<ChannelsPaused>(&word)) {
    WREATH_TRY(recovery_.on_paused(std::move(*paused)));
  } else {
    WREATH_TRY(recovery_.on_ready(std::get<ChannelsReady>(word)));
  }
  return recovery_.step(new_words_);
}

std::string PutLink::path() const {
  const std::uint32_t present = present_.load(std::memory_order_relaxed);
  const std::uint32_t working = recovery_.working_rails();
  const std::string lost = port_->describe(present & ~working);
  return lost.empty() ? port_->describe(present)
                      : fmt::format("{}, lost: {}", port_->describe(present & working), lost);
}

// Names the way and the peer once, here. An error that is not the peer's doing keeps its code.
Error PutLink::explain(const Error& error) const {
  const bool theirs = error.code == ErrorCode::PeerLost || error.code == ErrorCode::Mismatch;
  return {error.code, fmt::format("{} to rank {}: {}", path(), peer_, error.message), theirs ? peer_ : -1};
}

void PutLink::fail(const Error& error) {
  broken_ = explain(error);
  queues_.give_up();
}

}  // namespace wreath
