// Registers, writes and polls through libfabric: see adapter.hpp.
#include "transports/ofi/adapter.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "src/base/log.hpp"
#include "src/put/message.hpp"

namespace wreath {
namespace {

constexpr std::size_t kEntriesAtOnce = 32;
constexpr std::size_t kFewEntries = 1024;  // every adapter has room for so many
constexpr std::uint64_t kLongestPutBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kFewestOutstanding = 16;
constexpr std::uint32_t kMostOutstanding = 1024;
// A sleeper looks so often where a provider has nothing to wait on.
constexpr long kLookNs = 200'000;
// A rail is lost of which nothing comes for twice as long while others go on. Providers over sockets try again for that
// long where packets are lost.
constexpr std::int64_t kSilentMs = 2500;

}  // namespace

OfiAdapter::OfiAdapter(OfiProvider provider, int peers, bool mends)
    : provider_(std::move(provider)), no_device_memory_(provider_.no_device_memory), peers_(peers), mends_(mends) {
  const fi_info& info = *provider_.info;
  const auto share = static_cast<std::uint32_t>(info.tx_attr->size / static_cast<std::size_t>(peers));
  limits_.put_bytes = std::min<std::uint64_t>(info.ep_attr->max_msg_size, kLongestPutBytes);
  limits_.outstanding = std::clamp(share, kFewestOutstanding, kMostOutstanding);
  // Some providers say that they go on by themselves (FI_PROGRESS_AUTO), and do not.
  limits_.polled = true;
  limits_.shared = mends;
  limits_.silent_ms = mends ? kSilentMs : 0;
  limits_.told_bits = 32 - static_cast<std::uint32_t>(std::bit_width(static_cast<unsigned>(peers)));
}

OfiAdapter::~OfiAdapter() {
  if (closing_.begun()) close_now();
  if (has_mode(FI_MR_ENDPOINT)) close_regions();
  endpoint_.reset();
}

Result<std::vector<std::unique_ptr<Adapter>>> OfiAdapter::open_all(int rank, int ranks, bool has_device) {
  auto providers = find_providers(rank, has_device);
  if (!providers) return providers.error();
  std::vector<std::unique_ptr<Adapter>> adapters;
  for (OfiProvider& each : *providers) {
    auto adapter = open(std::move(each), ranks, providers->size() > 1);
    if (!adapter) return adapter.error();
    adapters.push_back(*std::move(adapter));
  }
  return adapters;
}

Result<std::unique_ptr<OfiAdapter>> OfiAdapter::open(OfiProvider provider, int ranks, bool mends) {
  std::unique_ptr<OfiAdapter> made(new OfiAdapter(std::move(provider), std::max(ranks - 1, 1), mends));
  if (made->limits_.told_bits < kFewestToldBits) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: 32 bits do not name {} ranks", made->describe(), ranks)};
  }
  fi_info& info = *made->provider_.info;
  fid_fabric* fabric = nullptr;
  if (const int rc = made->provider_.library->fabric(info.fabric_attr, &fabric, nullptr); rc != 0) {
    return made->failed("fi_fabric", rc);
  }
  made->fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int rc = fi_domain(fabric, &info, &domain, nullptr); rc != 0) return made->failed("fi_domain", rc);
  made->domain_.reset(domain);
  made->flush_.emplace(made->provider_, *domain);
  return made;
}

Error OfiAdapter::failed(const char* call, std::int64_t returned) const {
  return {ErrorCode::System, fmt::format("{}: {}", describe(), provider_.library->explain(call, returned))};
}

Result<std::unique_ptr<Channel>> OfiAdapter::make_channel(std::uint32_t tells) {
  tells_ = tells;
  if (endpoint_ == nullptr && channels_.was_used() && !mends_) {
    return Error{ErrorCode::Aborted, describe() + ": its endpoint was closed"};
  }
  if (!is_open()) WREATH_TRY(reopen());
  const std::size_t index = channels_.next();
  if (index >> (32 - limits_.told_bits) != 0) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: it has channels to all ranks already", describe())};
  }
  auto channel = std::make_unique<OfiChannel>(*this, static_cast<std::uint16_t>(index));
  channels_.add(*channel);
  return std::unique_ptr<Channel>(std::move(channel));
}

// The queue has room for all that may complete at once.
Status OfiAdapter::make_endpoint() {
  fi_info& info = *provider_.info;
  const std::size_t told = std::size_t{tells_} * static_cast<std::size_t>(peers_);
  WREATH_TRY(make_queue(told + std::size_t{limits_.outstanding} * static_cast<std::size_t>(peers_)));
  fi_av_attr addresses{};
  addresses.type = info.domain_attr->av_type;
  addresses.count = static_cast<std::size_t>(peers_);
  fid_av* vector = nullptr;
  if (const int rc = fi_av_open(domain_.get(), &addresses, &vector, nullptr); rc != 0) return failed("fi_av_open", rc);
  peer_addresses_.reset(vector);
  WREATH_TRY(enable_endpoint());
  const auto blank = blank_registration_ == 0 ? register_memory(blank_, false) : Result(blank_registration_);
  if (!blank) {
    endpoint_.reset();
    return blank.error();
  }
  blank_registration_ = *blank;
  const std::size_t receives = (info.mode & FI_RX_CQ_DATA) == 0 ? 0 : std::min(told, info.rx_attr->size);
  for (std::size_t i = 0; i < receives; ++i) {
    receives_.push_back(&requests_.emplace_back());
    receives_.back()->receive = true;
  }
  post_receives();
  return {};
}

Status OfiAdapter::enable_endpoint() {
  fi_info& info = *provider_.info;
  fid_ep* endpoint = nullptr;
  if (const int rc = fi_endpoint(domain_.get(), &info, &endpoint, nullptr); rc != 0) return failed("fi_endpoint", rc);
  OfiHandle<fid_ep> made(endpoint);
  if (no_device_memory_.empty()) {
    const Status forbidden = forbid_cuda(*provider_.library, *endpoint);
    if (!forbidden) no_device_memory_ = forbidden.error().message;
  }
  int rc = fi_ep_bind(endpoint, &peer_addresses_->fid, 0);
  if (rc == 0) rc = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (rc == 0) rc = fi_enable(endpoint);
  if (rc != 0) return not_enabled(rc);
  std::array<std::byte, 256> bytes;
  std::size_t length = bytes.size();
  rc = fi_getname(&endpoint->fid, bytes.data(), &length);
  if (rc != 0 || length > bytes.size()) return failed("fi_getname", rc);
  // Some providers end the process where the queue of an endpoint is read that was not enabled.
  endpoint_ = std::move(made);
  address_ = {provider_.name(), info.addr_format, 0, {bytes.begin(), bytes.begin() + static_cast<long>(length)}};
  return {};
}

Error OfiAdapter::not_enabled(std::int64_t returned) const {
  Error error = failed("fi_enable", returned);
  if (provider_.name().find(";ofi_rxm") != std::string::npos) {
    error.message +=
        "; ofi_rxm asks the adapter for queues of FI_UNIVERSE_SIZE peers (256): set it to the number of ranks";
  }
  return error;
}

// Takes a queue with a descriptor to wait on, where the provider has one.
Status OfiAdapter::make_queue(std::size_t entries) {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_DATA;
  fid_cq* queue = nullptr;
  for (const fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    attributes.wait_obj = wait;
    attributes.size = entries;
    int rc = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
    // Adapters have a limit that no property says. Providers hold back what their queue has no room for
    // (FI_RM_ENABLED).
    while (rc == -FI_EINVAL && attributes.size > kFewEntries) {
      attributes.size /= 2;
      rc = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
    }
    if (rc != 0 && wait == FI_WAIT_NONE) return failed("fi_cq_open", rc);
    if (rc != 0) continue;
    queue_.reset(queue);
    int descriptor = -1;
    if (wait == FI_WAIT_NONE || fi_control(&queue->fid, FI_GETWAIT, &descriptor) != 0 || descriptor < 0) continue;
    bell_ = LibraryDescriptor(descriptor);
    return {};
  }
  timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) return os_error("make a timer", errno);
  return {};
}

// Receives hold no memory: they only take what is told. Those that the provider refuses now are posted later.
void OfiAdapter::post_receives() {
  while (!receives_.empty() && is_open()) {
    if (fi_recv(endpoint_.get(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, &receives_.back()->notes) != 0) return;
    receives_.pop_back();
  }
}

Result<fi_addr_t> OfiAdapter::insert(const OfiAddress& theirs) {
  const auto differs = [](const char* what, const auto& here, const auto& there) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("{} is {} here and {} at the peer: set WREATH_OFI_PROVIDER alike", what, here, there)};
  };
  if (!is_open()) return Error{ErrorCode::Unavailable, describe() + ": its endpoint is closed"};
  if (theirs.provider != address_.provider) return differs("the provider", address_.provider, theirs.provider);
  if (theirs.format != address_.format) return differs("the format of addresses", address_.format, theirs.format);
  const std::vector<std::byte>& own = address_.endpoint;
  if (theirs.endpoint.size() != own.size()) {
    return differs("the length of an address", own.size(), theirs.endpoint.size());
  }
  // The provider reads as many bytes as the family says.
  const bool sockets = is_socket_address(address_.format);
  if (sockets && !std::equal(own.begin(), own.begin() + sizeof(sa_family_t), theirs.endpoint.begin())) {
    return bad_address("its family is not as here");
  }
  if (theirs.channel >> (32 - limits_.told_bits) != 0) {
    return bad_address(fmt::format("channel {} is out of range", theirs.channel));
  }
  if (const auto known = inserted_.find(theirs.endpoint); known != inserted_.end()) {
    ++known->second.channels;
    return known->second.address;
  }
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(peer_addresses_.get(), theirs.endpoint.data(), 1, &address, 0, nullptr);
  if (inserted != 1) return failed("fi_av_insert", inserted < 0 ? inserted : -FI_EINVAL);
  has_peers_ = true;
  inserted_[theirs.endpoint] = {address, 1};
  return address;
}

// A peer whose endpoint was opened anew has a new address each time.
void OfiAdapter::forget(fi_addr_t peer) {
  const auto known = std::ranges::find_if(inserted_, [peer](const auto& each) { return each.second.address == peer; });
  if (known == inserted_.end() || --known->second.channels > 0) return;
  inserted_.erase(known);
  if (const int rc = fi_av_remove(peer_addresses_.get(), &peer, 1, 0); rc != 0) {
    log_info("{}", failed("fi_av_remove", rc).message);
  }
}

OfiRequest& OfiAdapter::take_request() {
  if (free_.empty()) return requests_.emplace_back();
  OfiRequest& request = *free_.back();
  free_.pop_back();
  return request;
}

Result<OfiRequest*> OfiAdapter::write(OfiChannel& channel, const Put& put, fi_addr_t to, std::uint32_t word) {
  if (!is_open()) return Error{ErrorCode::Aborted, "the endpoint was closed"};
  // A put without bytes still names memory that is there: providers look at its registration.
  const bool empty = put.bytes == 0;
  const auto* const registration =
      reinterpret_cast<const Registration*>(empty ? blank_registration_ : put.registration);
  if (registration->region == nullptr) return Error{ErrorCode::System, "memory was not registered"};
  OfiRequest& request = take_request();
  request.channel = &channel;
  request.number = put.number;
  request.bytes = put.bytes;
  request.optional = put.optional;
  request.tells = put.tells.has_value();
  request.part = false;
  const iovec piece{const_cast<std::byte*>(empty ? blank_.data() : put.from), put.bytes};
  const fi_rma_iov target{put.to, put.bytes, put.key};
  void* description = fi_mr_desc(registration->region.get());
  fi_msg_rma message{&piece, &description, 1, to, &target, 1, &request.notes, word};
  std::uint64_t flags = FI_COMPLETION | provider_.completion;
  if (put.tells) flags |= FI_REMOTE_CQ_DATA;
  const auto returned = fi_writemsg(endpoint_.get(), &message, flags);
  if (returned == 0) return &request;
  free_.push_back(&request);
  if (returned == -FI_EAGAIN) return nullptr;
  return Error{ErrorCode::System, provider_.library->explain("fi_writemsg", returned)};
}

// Takes an entry of the queue. Returns whether it made `event`.
bool OfiAdapter::take(const fi_cq_data_entry& entry, PutEvent& event) {
  auto* const request = static_cast<OfiRequest*>(entry.op_context);
  if (request != nullptr && request->receive) receives_.push_back(request);
  // Some providers set the flag where a put of this rank that told something has ended, too.
  const bool own = request != nullptr && !request->receive;
  if (!own && (entry.flags & FI_REMOTE_CQ_DATA) != 0) {
    const auto word = static_cast<std::uint32_t>(entry.data);
    event = {};
    event.kind = PutEvent::Kind::Told;
    event.channel = static_cast<std::uint16_t>(word >> limits_.told_bits);
    event.told = word & ((std::uint32_t{1} << limits_.told_bits) - 1);
    if (OfiChannel* const channel = channels_.find(event.channel)) channel->on_told();
    return true;
  }
  if (!own) return false;
  OfiChannel* const channel = request->channel;
  free_.push_back(request);
  return channel != nullptr && channel->on_ended(*request, "", event);
}

// Takes the entry of something that failed. Returns whether it made `event`.
bool OfiAdapter::take_failure(PutEvent& event) {
  OfiNewer<fi_cq_err_entry> read;
  const fi_cq_err_entry& entry = read.known;
  const auto count = fi_cq_readerr(queue_.get(), &read.known, 0);
  if (count < 1) return false;
  std::array<char, 128> text{};
  const char* const more = fi_cq_strerror(queue_.get(), entry.prov_errno, entry.err_data, text.data(), text.size());
  const std::string words = fmt::format("{}{}{}", provider_.library->strerror(entry.err), more == nullptr ? "" : ": ",
                                        more == nullptr ? "" : more);
  auto* const request = static_cast<OfiRequest*>(entry.op_context);
  if (request != nullptr && request->receive) receives_.push_back(request);
  if (request == nullptr || request->receive) {
    troubles_.add(fmt::format("{}: {}", describe(), words));
    if (mends_ && is_gone(-entry.err)) lose_all(words);
    return false;
  }
  OfiChannel* const channel = request->channel;
  free_.push_back(request);
  return channel != nullptr && channel->on_ended(*request, words, event);
}

Result<std::size_t> OfiAdapter::poll(std::span<PutEvent> events) {
  auto made = take_entries(events);
  if (!made) {
    if (!mends_) return made;
    lose_all(made.error().message);
    made = std::size_t{0};
  }
  post_receives();
  if (is_mending()) go_on_mending();
  channels_.each([&](OfiChannel& channel) {
    if (*made < events.size() && channel.take_loss(events[*made])) ++*made;
  });
  return made;
}

// The entries that are left when the endpoint is closed are nobody's, and providers explain failures by what it held.
Result<std::size_t> OfiAdapter::take_entries(std::span<PutEvent> events) {
  std::size_t made = 0;
  std::array<fi_cq_data_entry, kEntriesAtOnce> entries;
  while (made < events.size() && is_open()) {
    const std::size_t asked = std::min(events.size() - made, kEntriesAtOnce);
    const auto count = fi_cq_read(queue_.get(), entries.data(), asked);
    if (count == -FI_EAGAIN || count == 0) break;
    if (count == -FI_EAVAIL) {
      if (!take_failure(events[made])) break;
      ++made;
      continue;
    }
    if (count < 0 && made == 0) return failed("fi_cq_read", count);
    if (count < 0) break;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (take(entries[i], events[made])) ++made;
    }
    if (static_cast<std::size_t>(count) < asked) break;
  }
  return made;
}

bool OfiAdapter::arm() {
  if (timer_) {
    const itimerspec look{{}, {0, kLookNs}};
    return ::timerfd_settime(timer_.get(), 0, &look, nullptr) == 0;
  }
  // A provider looks at the endpoints of the queue, and one that is being closed must be left alone.
  if (queue_ == nullptr || !is_open()) return true;
  fid* waits = &queue_->fid;
  return fi_trywait(fabric_.get(), &waits, 1) == FI_SUCCESS;
}

// Nothing reads memory for a put any more when the endpoint is closed, and no peer writes any through it. Registrations
// that are bound to the endpoint are closed before it.
bool OfiAdapter::close_endpoint() {
  if (endpoint_ == nullptr) return true;
  if (!closing_.begun()) {
    if (has_mode(FI_MR_ENDPOINT)) close_regions();
    closing_.begin(endpoint_.get());
  }
  if (!closing_.over()) return false;
  if (const int rc = closing_.take_result(); rc != 0) {
    log_info("{}", failed("fi_close", rc).message);
    return false;
  }
  static_cast<void>(endpoint_.release());
  return true;
}

bool OfiAdapter::close_for_good() {
  if (!close_endpoint()) return false;
  close_regions();
  return true;
}

void OfiAdapter::close_now() {
  if (close_for_good()) return;
  closing_.wait();
  static_cast<void>(close_for_good());
}

void OfiAdapter::lose_all(const std::string& why) {
  channels_.each([&](OfiChannel& channel) { channel.lose(why); });
}

// A put that was lost may come late, as long as the endpoint is open. Links that have something under way there with
// other peers end it first: a put that has ended must be told.
void OfiAdapter::go_on_mending() {
  const std::string why = fmt::format("its endpoint is opened anew for a link to another rank: {}", *mending_);
  channels_.each([&](OfiChannel& channel) { channel.leave(why); });
  if (channels_.any([](const OfiChannel& channel) { return channel.is_busy(); }) || !close_endpoint()) return;
  channels_.each([](OfiChannel& channel) { channel.on_closed(); });
  bell_ = {};
  timer_ = {};
  queue_.reset();
  peer_addresses_.reset();
  inserted_.clear();
  requests_.clear();
  free_.clear();
  receives_.clear();
  mending_.reset();
}

// Peers know memory by its key, so all of it must be registered as they have heard.
Status OfiAdapter::reopen() {
  if (is_mending() || closing_.begun())
    return Error{ErrorCode::Unavailable, describe() + ": its endpoint is being closed"};
  const auto misses = [](const auto& each) { return each->region == nullptr; };
  if (const std::lock_guard lock(mutex_); std::ranges::any_of(registrations_, misses)) {
    return Error{ErrorCode::Unavailable, describe() + ": memory was not registered while it was away"};
  }
  return endpoint_ == nullptr ? make_endpoint() : Status();
}

// Requests that have not ended stay until the adapter is destroyed.
void OfiAdapter::remove(const OfiChannel& channel) {
  for (OfiRequest& request : requests_) {
    if (request.channel == &channel) request.channel = nullptr;
  }
  channels_.remove(channel);
}

}  // namespace wreath
