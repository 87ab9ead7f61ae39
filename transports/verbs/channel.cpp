// Connects queue pairs, and puts through them: see channel.hpp.
#include "transports/verbs/channel.hpp"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/log.hpp"
#include "transports/verbs/adapter.hpp"
#include "transports/verbs/words.hpp"

namespace wreath {
namespace {

// Receives are posted again so many at a time.
constexpr std::uint32_t kReceiveBatch = 16;

}  // namespace

std::uint32_t VerbsChannel::completions(const PutLimits& limits, std::uint32_t tells) {
  return limits.outstanding + tells + kReceiveBatch;
}

Result<std::unique_ptr<VerbsChannel>> VerbsChannel::make(VerbsAdapter& adapter, std::uint16_t index,
                                                         std::uint32_t tells) {
  std::unique_ptr<VerbsChannel> made(new VerbsChannel(adapter, index, tells));
  WREATH_TRY(made->pair_.make(*adapter.queue(),
                              {adapter.limits().outstanding, made->receives_, 1, 1, adapter.limits().inline_bytes}));
  WREATH_TRY(made->prepare());
  return made;
}

VerbsChannel::VerbsChannel(VerbsAdapter& adapter, std::uint16_t index, std::uint32_t tells)
    : adapter_(adapter),
      index_(index),
      receives_(tells + kReceiveBatch),
      pair_(adapter),
      reports_(adapter.limits().outstanding),
      requests_(adapter.limits().outstanding),
      pieces_(adapter.limits().outstanding),
      receive_requests_(receives_) {}

VerbsChannel::~VerbsChannel() {
  pair_.destroy();
  adapter_.remove(*this);
}

// Takes a queue pair without state to where it waits for its peer.
Status VerbsChannel::prepare() {
  generation_ = adapter_.next_generation();
  posted_ = ended_ = signaled_ = waiting_ = 0;
  WREATH_TRY(pair_.prepare(IBV_ACCESS_REMOTE_WRITE));
  state_ = State::Ready;
  return post_receives(receives_);
}

Status VerbsChannel::post_receives(std::uint32_t count) {
  const std::uint64_t id = WorkNumber{0, index_, generation_, true}.pack();
  for (std::uint32_t i = 0; i < count; ++i) {
    receive_requests_[i] = {id, i + 1 == count ? nullptr : &receive_requests_[i + 1], nullptr, 0};
  }
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(pair_.get(), receive_requests_.data(), &refused);
  waiting_ += error == 0 ? count : static_cast<std::uint32_t>(refused - receive_requests_.data());
  if (error == 0) return {};
  return pair_.explain(ErrorCode::System, fmt::format("receives were not posted: {}", std::strerror(error)));
}

Status VerbsChannel::connect(std::span<const std::byte> theirs) {
  if (state_ != State::Ready) return pair_.explain(ErrorCode::InvalidUsage, "it is not ready for a peer");
  const auto address = decode_address<VerbsAddress>(theirs);
  if (!address) return pair_.explain(address.error().code, address.error().message);
  WREATH_TRY(pair_.connect(*address));
  state_ = State::Connected;
  return {};
}

void VerbsChannel::fill(const Put& put, std::uint32_t position, std::size_t at) {
  const auto* const region = reinterpret_cast<const ibv_mr*>(put.registration);
  pieces_[at] = {reinterpret_cast<std::uintptr_t>(put.from), put.bytes, region == nullptr ? 0 : region->lkey};
  ibv_send_wr& request = requests_[at] = {};
  request.wr_id = WorkNumber{position, index_, generation_}.pack();
  request.next = &request + 1;
  request.sg_list = &pieces_[at];
  request.num_sge = put.bytes == 0 ? 0 : 1;
  request.opcode = put.tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  if (put.tells) request.imm_data = htobe32(*put.tells);
  request.wr.rdma.remote_addr = put.to;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(put.key);
  if (region == nullptr && put.bytes > 0) request.send_flags |= IBV_SEND_INLINE;
  // A completion frees the places of all sends before it, so there is one for each quarter of the queue.
  if (put.reports || position + 1 - signaled_ >= reports_.size() / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    signaled_ = position + 1;
  }
  reports_[position % reports_.size()] = {put.reports, put.number};
}

Result<std::size_t> VerbsChannel::put(std::span<const Put> puts) {
  if (!broken_) return broken_.error();
  if (state_ != State::Connected) return pair_.explain(ErrorCode::InvalidUsage, "it is not connected");
  const std::size_t count = std::min<std::size_t>(puts.size(), reports_.size() - (posted_ - ended_));
  if (count == 0) return count;
  for (std::size_t i = 0; i < count; ++i) fill(puts[i], posted_ + static_cast<std::uint32_t>(i), i);
  requests_[count - 1].next = nullptr;
  // The last one always completes by itself, so that stop() learns the end of all that was taken.
  requests_[count - 1].send_flags |= IBV_SEND_SIGNALED;
  signaled_ = posted_ + static_cast<std::uint32_t>(count);
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair_.get(), requests_.data(), &refused);
  posted_ += static_cast<std::uint32_t>(error == 0 ? count : static_cast<std::size_t>(refused - requests_.data()));
  if (error == 0) return count;
  return pair_.explain(ErrorCode::System, fmt::format("requests were not posted: {}", std::strerror(error)));
}

bool VerbsChannel::on_completion(const ibv_wc& completion, PutEvent& event) {
  const WorkNumber number = WorkNumber::unpack(completion.wr_id);
  if (number.generation != generation_) return false;
  if (number.receive) {
    --waiting_;
  } else {
    ended_ = number.position + 1;
  }
  if (completion.status != IBV_WC_SUCCESS) return lose(completion, event);
  event.channel = index_;
  if (number.receive) {
    event.kind = PutEvent::Kind::Told;
    event.told = be32toh(completion.imm_data);
    const std::uint32_t taken = receives_ - waiting_;
    if (taken >= kReceiveBatch && state_ == State::Connected && broken_) broken_ = post_receives(taken);
    return true;
  }
  const Report& report = reports_[number.position % reports_.size()];
  event.kind = PutEvent::Kind::Ended;
  event.number = report.number;
  return report.wanted;
}

// Takes a failed completion. The first one tells why the channel is lost; the others are its consequence.
bool VerbsChannel::lose(const ibv_wc& completion, PutEvent& event) {
  if (state_ == State::Lost || state_ == State::Stopping) return false;
  state_ = State::Lost;
  StatusWords words = status_words(completion.status, true);
  if (words.retryable) words.retryable = status_words(completion.status, false).retryable || pair_.was_disturbed();
  event = {};
  event.kind = PutEvent::Kind::Lost;
  event.channel = index_;
  event.retryable = words.retryable;
  event.error = pair_.explain(words.code, fmt::format("{} (vendor's error {:#x})", words.text, completion.vendor_err));
  return true;
}

bool VerbsChannel::stop() {
  if (state_ != State::Stopping) {
    if (const Status stopped = pair_.modify(IBV_QPS_ERR, "be stopped"); !stopped) {
      log_info("{}", stopped.error().message);
      return false;
    }
    state_ = State::Stopping;
  }
  return posted_ == ended_ && waiting_ == 0 && !adapter_.has_events_of(*this);
}

Status VerbsChannel::reset() {
  if (state_ != State::Stopping || !stop()) return pair_.explain(ErrorCode::InvalidUsage, "it is not stopped");
  WREATH_TRY(pair_.modify(IBV_QPS_RESET, "be reset"));
  broken_ = {};
  return prepare();
}

}  // namespace wreath
