// Each pair of ranks agrees on a transport over its control connection.
#include "src/membership/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/bootstrap/mesh.hpp"
#include "src/membership/link_messages.hpp"

namespace wreath {
namespace {

// Returns a text such as " over eth0" for a wire that knows its way.
std::string way(const Wire* wire) {
  const std::string path = wire == nullptr ? std::string() : wire->path();
  return path.empty() ? path : " over " + path;
}

// Gives a region of the peer to its link. A link without mapped memory has no use for it.
Status accept_region(Link& link, std::uint32_t index, Offer offer) {
  return link.mapped() == nullptr ? Status() : link.mapped()->accept_region(index, std::move(offer));
}

}  // namespace

bool allows(const CommunicatorOptions& options, std::string_view transport) {
  const std::vector<std::string>& names = options.transports;
  return names.empty() || std::find(names.begin(), names.end(), transport) != names.end();
}

Result<std::unique_ptr<Links>> Links::create(const Membership& membership, const FifoShape& shape,
                                             const CommunicatorOptions& options, bool single_copy,
                                             DeviceSegments device, std::size_t streams) {
  auto links = std::make_unique<Links>();
  links->members_ = membership.members;
  links->self_ = membership.members[static_cast<std::size_t>(membership.rank)].endpoint;
  const bool other_processes =
      std::any_of(membership.members.begin(), membership.members.end(),
                  [&](const Member& member) { return member.endpoint.process != links->self_.process; });
  const auto allows_one = [&](SharedMemory shares) {
    return std::ranges::any_of(
        transports(), [&](const TransportRow& row) { return row.shares == shares && allows(options, row.name); });
  };
  const bool shareable = allows_one(SharedMemory::Host) && (other_processes || !allows_one(SharedMemory::Process));
  auto segment = OwnSegment::create(membership.rank, membership.ranks, shape, host_segment_memory(shareable));
  if (!segment && shareable && allows_one(SharedMemory::None)) {
    // Peers of other processes then find shared memory refused, and use a wire.
    log_info("no shared memory: {}", segment.error().message);
    segment = OwnSegment::create(membership.rank, membership.ranks, shape, host_segment_memory(false));
  }
  if (!segment) return segment.error();
  links->segment_ = std::move(*segment);
  if (device.memory != nullptr) {
    links->device_reaches_ = std::move(device.reaches);
    links->segment_->add_device(std::move(device.memory));
  }
  const TransportContext context{
      links->self_, membership.ranks,          shape,  links->segment_.get(), options.debug.faults,
      single_copy,  options.timeouts.stall_ms, streams};
  links->streams_ = std::max<std::size_t>(streams, 1);
  WREATH_TRY(links->make_transports(context, options));
  links->links_.resize(static_cast<std::size_t>(membership.ranks));
  links->wires_.resize(static_cast<std::size_t>(membership.ranks));
  links->transports_.resize(static_cast<std::size_t>(membership.ranks));
  links->names_.assign(static_cast<std::size_t>(membership.ranks), "self");
  links->more_.resize(static_cast<std::size_t>(membership.ranks));
  links->incoming_ = std::vector<Incoming>(static_cast<std::size_t>(membership.ranks));
  return links;
}

// Makes the transports that are allowed, each in the decorators that the options ask for.
Status Links::make_transports(const TransportContext& context, const CommunicatorOptions& options) {
  for (const TransportRow& row : transports()) {
    if (!allows(options, row.name)) continue;
    const Status usable = row.usable();
    auto transport = usable ? row.make(context) : Result<std::unique_ptr<Transport>>(usable.error());
    for (const DecoratorRow& decorator : transport_decorators()) {
      if (transport && !(context.*decorator.setting).empty()) {
        transport = decorator.make(std::move(*transport), context);
      }
    }
    if (transport) {
      candidates_.push_back({row.name, row.needs_stream, std::move(*transport)});
    } else if (transport.error().code == ErrorCode::Unavailable) {
      log_info("{} cannot be used here: {}", row.name, transport.error().message);
      add_reason(unusable_, row.name, transport.error().message);
    } else {
      return transport.error();
    }
  }
  return {};
}

void Links::handle(ControlHandlers& handlers) {
  for (const MessageKind kind :
       {MessageKind::Candidates, MessageKind::Offer, MessageKind::Verdict, MessageKind::Linked}) {
    handlers.add(kind, [this](Rank from, ControlMessage& message) {
      const std::lock_guard lock(mutex_);
      incoming_[static_cast<std::size_t>(from)].messages.push_back(std::move(message));
      arrived_.notify_all();
    });
  }
}

Status Links::on_region(Rank from, std::uint32_t index, Offer offer) {
  const std::lock_guard lock(mutex_);
  if (Link* const linked = link(from)) return accept_region(*linked, index, std::move(offer));
  incoming_[static_cast<std::size_t>(from)].regions.emplace_back(index, std::move(offer));
  return {};
}

Status Links::on_word(Rank from, Offer word) {
  const auto refuse = [from](const std::string& what) {
    return Error{ErrorCode::Mismatch, fmt::format("rank {} {}", from, what), from};
  };
  if (word.bytes.size() > kMaximumWordBytes || !word.descriptors.empty()) {
    return refuse(fmt::format("says a word of {} bytes and {} descriptors over its link", word.bytes.size(),
                              word.descriptors.size()));
  }
  const std::lock_guard lock(mutex_);
  if (link(from) != nullptr && !speaks(from)) return refuse("says words over a link that has none");
  Incoming& incoming = incoming_[static_cast<std::size_t>(from)];
  if (++incoming.waiting_words > kMaximumWaitingWords) {
    return refuse(fmt::format("says more than {} words at once over its link", kMaximumWaitingWords));
  }
  words_.push_back({from, std::move(word)});
  has_words_.store(true, std::memory_order_release);
  return {};
}

std::vector<Links::Word> Links::take_words() {
  const std::lock_guard lock(mutex_);
  has_words_.store(false, std::memory_order_relaxed);
  for (Incoming& incoming : incoming_) incoming.waiting_words = 0;
  return std::exchange(words_, {});
}

Status Links::send_word(Members& control, Rank peer, Offer word) {
  if (word.bytes.size() > kMaximumWordBytes || !word.descriptors.empty()) {
    return Error{ErrorCode::System, fmt::format("the wire to rank {} says a word of {} bytes and {} descriptors", peer,
                                                word.bytes.size(), word.descriptors.size())};
  }
  ControlMessage message;
  message.kind = MessageKind::Word;
  message.offer = std::move(word);
  control.send(peer, std::move(message));
  return {};
}

void Links::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  failed_.set();
  arrived_.notify_all();
}

Result<ControlMessage> Links::take(Rank from, MessageKind kind, std::uint32_t index, Deadline deadline) {
  std::unique_lock lock(mutex_);
  std::deque<ControlMessage>& messages = incoming_[static_cast<std::size_t>(from)].messages;
  while (messages.empty()) {
    if (failure_) return *failure_;
    if (deadline.passed()) {
      return Error{ErrorCode::StartupFailed, fmt::format("rank {} did not answer while transports were agreed", from),
                   from};
    }
    arrived_.wait_for(lock, std::chrono::milliseconds(50));
  }
  ControlMessage message = std::move(messages.front());
  messages.pop_front();
  if (message.kind != kind || message.index != index) {
    return Error{ErrorCode::StartupFailed, fmt::format("rank {} offers other transports than this rank", from), from};
  }
  return message;
}

Result<LinkFacts> Links::connect(Membership& membership, Members& control, Deadline deadline, bool crowded) {
  std::vector<Attempt> attempts(links_.size());
  WREATH_TRY(find_candidates(control, deadline, attempts));
  const auto unlinked = [&] {
    return std::any_of(attempts.begin(), attempts.end(), [&](const Attempt& attempt) {
      return &attempt - attempts.data() != self_.rank && attempt.link == nullptr;
    });
  };
  while (unlinked()) WREATH_TRY(run_round(membership, control, deadline, attempts));
  WREATH_TRY(take_links(attempts));
  return agree(control, deadline, crowded);
}

// Tells every peer which transports could link the pair. The pair tries those that both ends name.
Status Links::find_candidates(Members& control, Deadline deadline, std::vector<Attempt>& attempts) {
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    Attempt& attempt = attempts[peer];
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Status reachable = candidates_[i].transport->reachable(self_, members_[peer].endpoint);
      if (reachable) {
        attempt.candidates.push_back(i);
        names.push_back(candidates_[i].name);
      } else {
        attempt.refuse(candidates_[i].name, reachable.error().message);
      }
    }
    ControlMessage message;
    message.kind = MessageKind::Candidates;
    message.body = encode_candidates(names);
    message.text = unusable_;
    control.send(static_cast<Rank>(peer), std::move(message));
  }
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    const auto message = take(static_cast<Rank>(peer), MessageKind::Candidates, 0, deadline);
    if (!message) return message.error();
    const auto theirs = decode_candidates(message->body);
    if (!theirs) return Error{theirs.error().code, theirs.error().message, static_cast<Rank>(peer)};
    const std::string theirs_lack = message->text.empty() ? "" : fmt::format(" ({})", message->text);
    Attempt& attempt = attempts[peer];
    std::erase_if(attempt.candidates, [&](std::size_t i) {
      const bool missing = std::find(theirs->begin(), theirs->end(), candidates_[i].name) == theirs->end();
      if (missing) attempt.refuse(candidates_[i].name, fmt::format("rank {} cannot{}", peer, theirs_lack));
      return missing;
    });
  }
  return {};
}

Status Links::take_links(std::vector<Attempt>& attempts) {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    links_[peer] = std::move(attempts[peer].link);
    wires_[peer] = links_[peer]->wire();
    MappedLink* const memory = mapped(static_cast<Rank>(peer));
    const std::string_view name = transports_[peer] = candidate(attempts[peer]).name;
    const std::optional<Status> single_copy = memory == nullptr ? std::nullopt : memory->single_copy();
    if (single_copy && !*single_copy) attempts[peer].refuse("single copy", single_copy->error().message);
    names_[peer] = name;
    more_[peer] = single_copy && *single_copy ? ", single copy" : "";
    share_device(static_cast<Rank>(peer), attempts[peer]);
    if (!attempts[peer].refused.empty()) more_[peer] += fmt::format(" ({})", attempts[peer].refused);
    (memory != nullptr ? mapped_ : wired_).push_back(static_cast<Rank>(peer));
    if (memory != nullptr) sleepers_.emplace_back(memory->peer().sleeping(), memory);
    if (speaks(static_cast<Rank>(peer))) {
      speaking_.push_back(static_cast<Rank>(peer));
    } else if (incoming_[peer].waiting_words > 0) {
      return Error{ErrorCode::Mismatch, fmt::format("rank {} says words over a link that has none", peer),
                   static_cast<Rank>(peer)};
    }
    for (auto& [index, offer] : incoming_[peer].regions) {
      WREATH_TRY(accept_region(*links_[peer], index, std::move(offer)));
    }
    incoming_[peer].regions.clear();
  }
  return {};
}

// Tells peers of other processes of this rank's device where both ends reach each other's device.
void Links::share_device(Rank peer, Attempt& attempt) {
  const bool maps = mapped(peer) != nullptr && segment_->offered_descriptors(peer);
  if (!device_reaches_ || !maps) return;
  const EndpointDevice& theirs = members_[static_cast<std::size_t>(peer)].endpoint.device;
  if (theirs.kind == EndpointDevice::Kind::None) {
    return attempt.refuse(kDeviceReach, fmt::format("rank {} has no device", peer));
  }
  if (const Status reached = device_reaches_(theirs); !reached) {
    return attempt.refuse(kDeviceReach, reached.error().message);
  }
  segment_->tell_of_device(peer);
  more_[static_cast<std::size_t>(peer)] += fmt::format(", {}", kDeviceReach);
}

Result<std::vector<std::string>> Links::tell_all(Members& control, std::uint32_t subject, const std::string& text,
                                                 Deadline deadline) {
  ControlMessage message;
  message.kind = MessageKind::Verdict;
  message.index = subject;
  message.text = text;
  control.broadcast(message);
  std::vector<std::string> told(links_.size());
  for (std::size_t peer = 0; peer < told.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    auto theirs = take(static_cast<Rank>(peer), MessageKind::Verdict, subject, deadline);
    if (!theirs) return theirs.error();
    told[peer] = std::move(theirs->text);
  }
  return told;
}

Result<std::vector<Offer>> Links::swap_offers(Members& control, std::uint32_t subject, std::vector<Offer> own,
                                              Deadline deadline) {
  for (std::size_t peer = 0; peer < own.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    ControlMessage message;
    message.kind = MessageKind::Offer;
    message.index = subject;
    message.offer = std::move(own[peer]);
    control.send(static_cast<Rank>(peer), std::move(message));
  }
  std::vector<Offer> offers(own.size());
  for (std::size_t peer = 0; peer < offers.size(); ++peer) {
    if (static_cast<Rank>(peer) == self_.rank) continue;
    auto theirs = take(static_cast<Rank>(peer), MessageKind::Offer, subject, deadline);
    if (!theirs) return theirs.error();
    offers[peer] = std::move(theirs->offer);
  }
  return offers;
}

// Tells every rank that this rank is linked, and in which way. This is the last message of linking.
Result<LinkFacts> Links::agree(Members& control, Deadline deadline, bool crowded) {
  LinkFacts facts{{},
                  crowded,
                  self_.device.kind == EndpointDevice::Kind::Cuda,
                  segment_->shape().ring_bytes,
                  can_fill_ping_pong(),
                  can_copy(),
                  cache_sizes()};
  for (const Rank peer : wired_) facts.add_wire(transports_[static_cast<std::size_t>(peer)]);
  ControlMessage message;
  message.kind = MessageKind::Linked;
  message.body = encode_link_facts(facts);
  control.broadcast(message);
  for (Rank peer = 0; peer < static_cast<Rank>(links_.size()); ++peer) {
    if (peer == self_.rank) continue;
    const auto theirs = take(peer, MessageKind::Linked, 0, deadline);
    if (!theirs) return theirs.error();
    const auto their_facts = decode_link_facts(theirs->body);
    if (!their_facts) return Error{their_facts.error().code, their_facts.error().message, peer};
    facts.add(*their_facts);
  }
  if (facts.ping_pong) mapped(mapped_.front())->fill_ping_pong();
  return facts;
}

// The blocks of a device do not read ping-pong slots by themselves, and hold none.
bool Links::can_fill_ping_pong() const {
  if (!segment_->shape().ping_pong || self_.device.kind != EndpointDevice::Kind::None || mapped_.empty()) return false;
  return mapped(mapped_.front())->peer().ping_pong() != nullptr;
}

// Returns whether each peer of this host and this rank may read each other's memory.
bool Links::can_copy() const {
  return std::all_of(mapped_.begin(), mapped_.end(), [this](Rank peer) {
    const std::optional<Status> allowed = mapped(peer)->single_copy();
    return allowed && *allowed;
  });
}

// Returns the failure of another rank, if there is one. This rank itself lacks nothing then.
Status Links::others() {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : Status();
}

// Returns the error that this rank lacks descriptors. It tries no other transport, since these need descriptors, too.
Error Links::own_lack(const Error& error) const {
  const Member& self = members_[static_cast<std::size_t>(self_.rank)];
  return {ErrorCode::System,
          fmt::format("rank {} (host {}, pid {}): {}", self_.rank, self.host_name, self.pid, error.message),
          self_.rank};
}

// Runs one round for each pair without a link. Both ends of a pair are in the same round, and a round waits only for
// messages of its own.
Status Links::run_round(Membership& membership, Members& control, Deadline deadline, std::vector<Attempt>& attempts) {
  std::vector<Rank> open;
  for (std::size_t peer = 0; peer < attempts.size(); ++peer) {
    const Attempt& attempt = attempts[peer];
    if (static_cast<Rank>(peer) == self_.rank || attempt.link != nullptr) continue;
    if (attempt.at == attempt.candidates.size()) {
      return Error{ErrorCode::StartupFailed,
                   fmt::format("no transport links ranks {} and {}: {}", self_.rank, peer, reasons(attempt))};
    }
    open.push_back(static_cast<Rank>(peer));
  }
  std::vector<std::string> verdicts(attempts.size());
  const auto transport_of = [&](Rank peer) -> Transport& {
    const Attempt& attempt = attempts[static_cast<std::size_t>(peer)];
    return *candidate(attempt).transport;
  };
  for (const Rank peer : open) {
    ControlMessage message;
    message.kind = MessageKind::Offer;
    message.index = static_cast<std::uint32_t>(attempts[static_cast<std::size_t>(peer)].at);
    auto offer = transport_of(peer).offer(members_[static_cast<std::size_t>(peer)].endpoint);
    if (offer) {
      message.offer = std::move(*offer);
    } else if (lacks_descriptors(offer.error())) {
      return own_lack(offer.error());
    } else {
      verdicts[static_cast<std::size_t>(peer)] = offer.error().message;
    }
    control.send(peer, std::move(message));
  }
  for (const Rank peer : open) {
    Attempt& attempt = attempts[static_cast<std::size_t>(peer)];
    std::string& verdict = verdicts[static_cast<std::size_t>(peer)];
    auto link = try_candidate(membership, peer, attempt, deadline);
    if (link && verdict.empty()) attempt.link = std::move(*link);
    if (!link) WREATH_TRY(others());
    if (!link && lacks_descriptors(link.error())) return own_lack(link.error());
    // An offer that failed is the cause of all that follows.
    if (!link && verdict.empty()) verdict = link.error().message;
    ControlMessage message;
    message.kind = MessageKind::Verdict;
    message.index = static_cast<std::uint32_t>(attempt.at);
    message.text = verdict;
    control.send(peer, std::move(message));
  }
  for (const Rank peer : open) {
    Attempt& attempt = attempts[static_cast<std::size_t>(peer)];
    auto theirs = take(peer, MessageKind::Verdict, static_cast<std::uint32_t>(attempt.at), deadline);
    if (!theirs) return theirs.error();
    settle(attempt, peer, verdicts[static_cast<std::size_t>(peer)], theirs->text);
  }
  return {};
}

Result<std::unique_ptr<Link>> Links::try_candidate(Membership& membership, Rank peer, const Attempt& attempt,
                                                   Deadline deadline) {
  auto message = take(peer, MessageKind::Offer, static_cast<std::uint32_t>(attempt.at), deadline);
  if (!message) return message.error();
  Offer offer = std::move(message->offer);
  for (std::size_t number = 0; candidate(attempt).needs_stream && number < streams_; ++number) {
    auto stream = membership.open_stream(peer, deadline, failed_.descriptor(), number);
    if (!stream) {
      const std::lock_guard lock(mutex_);
      return failure_.value_or(stream.error());
    }
    offer.descriptors.push_back(stream->release());
  }
  return candidate(attempt).transport->connect(members_[static_cast<std::size_t>(peer)].endpoint, std::move(offer));
}

// Settles an attempt. The pair is linked where both ends succeeded. Otherwise both drop this candidate and note the
// reason.
void Links::settle(Attempt& attempt, Rank peer, const std::string& own, const std::string& theirs) {
  if (own.empty() && theirs.empty()) return;
  // One end's failure may be the cause of the other's, so both are told.
  const bool both = !own.empty() && !theirs.empty() && own != theirs;
  const std::string& one = own.empty() ? theirs : own;
  attempt.refuse(candidate(attempt).name, both ? fmt::format("{}; rank {}: {}", own, peer, theirs) : one);
  attempt.link.reset();
  ++attempt.at;
}

std::string Links::reasons(const Attempt& attempt) const {
  if (attempt.refused.empty()) return unusable_.empty() ? "none is allowed" : unusable_;
  return unusable_.empty() ? attempt.refused : fmt::format("{}; {}", attempt.refused, unusable_);
}

std::string Links::describe(Rank peer) const {
  const auto at = static_cast<std::size_t>(peer);
  return names_[at] + way(wires_[at]) + more_[at];
}

std::vector<WireCounts> Links::counts() const {
  std::vector<WireCounts> all;
  for (const Candidate& each : candidates_) {
    if (std::ranges::find(transports_, each.name) == transports_.end()) continue;
    WireCounts counts = each.transport->counts();
    if (counts.counts.empty()) continue;
    counts.transport = each.name;
    all.push_back(std::move(counts));
  }
  return all;
}

Status Links::announce(Members& control, Rank peer) {
  Link* const linked = link(peer);
  if (linked == nullptr || linked->mapped() == nullptr || !segment_->has_announcements(peer)) return {};
  auto announcements = segment_->take_announcements(peer);
  if (!announcements) return announcements.error();
  for (Announcement& announcement : *announcements) {
    ControlMessage message;
    message.kind = MessageKind::Region;
    message.index = announcement.index;
    message.offer = std::move(announcement.offer);
    control.send(peer, std::move(message));
  }
  return {};
}

Status Links::announce(Members& control) {
  for (Rank peer = 0; peer < static_cast<Rank>(links_.size()); ++peer) WREATH_TRY(announce(control, peer));
  return {};
}

}  // namespace wreath
