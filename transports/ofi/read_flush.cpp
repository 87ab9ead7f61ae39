// Reads through an endpoint that is its own peer: see read_flush.hpp.
#include "transports/ofi/read_flush.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <array>
#include <string>

#include "transports/ofi/newer.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kReads = FI_READ | FI_REMOTE_READ;
constexpr std::int64_t kMostMs = 5'000;  // nobody else goes on meanwhile

}  // namespace

std::string OfiReadFlush::obstacle(const fi_info& info) {
  if ((info.caps & kReads) != kReads) return "its adapter reads no memory of devices";
  if ((info.domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) return "memory belongs to the endpoint of the peers";
  return "";
}

Error OfiReadFlush::failed(const char* call, std::int64_t returned) const {
  return {ErrorCode::System, provider_.library->explain(call, returned)};
}

Status OfiReadFlush::flush(const RemoteMemory& memory) {
  if (!stalled_) return stalled_;
  Status done;
  for (int tries = 0; tries < 2; ++tries) {
    done = endpoint_ == nullptr ? prepare() : Status();
    if (done) done = read(memory);
    if (done || done.error().code == ErrorCode::Timeout) break;
    endpoint_.reset();
  }
  if (done) return done;
  const bool stalls = done.error().code == ErrorCode::Timeout;
  done = Error{ErrorCode::System, fmt::format("{}: memory of a device was not flushed: a read from itself failed: {}",
                                              provider_.describe(), done.error().message)};
  if (stalls) stalled_ = done;
  return done;
}

Status OfiReadFlush::prepare() {
  if (target_ == nullptr) {
    auto target = Region::create(1, false, "the target of reads");
    if (!target) return target.error();
    target_ = *std::move(target);
  }
  if (target_memory_ == nullptr) {
    fid_mr* memory = nullptr;
    const int rc = fi_mr_reg(&domain_, target_->data(), target_->bytes(), FI_READ, 0, 0, 0, &memory, nullptr);
    if (rc != 0) return failed("fi_mr_reg", rc);
    target_memory_.reset(memory);
  }
  fi_cq_attr entries{};
  entries.format = FI_CQ_FORMAT_DATA;
  entries.wait_obj = FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  if (const int rc = fi_cq_open(&domain_, &entries, &queue, nullptr); rc != 0) return failed("fi_cq_open", rc);
  queue_.reset(queue);
  fi_av_attr addresses{};
  addresses.type = provider_.info->domain_attr->av_type;
  addresses.count = 1;
  fid_av* peers = nullptr;
  if (const int rc = fi_av_open(&domain_, &addresses, &peers, nullptr); rc != 0) return failed("fi_av_open", rc);
  peers_.reset(peers);
  return enable();
}

Status OfiReadFlush::enable() {
  fid_ep* endpoint = nullptr;
  if (const int rc = fi_endpoint(&domain_, provider_.info.get(), &endpoint, nullptr); rc != 0) {
    return failed("fi_endpoint", rc);
  }
  OfiHandle<fid_ep> made(endpoint);
  WREATH_TRY(forbid_cuda(*provider_.library, *endpoint));
  int rc = fi_ep_bind(endpoint, &peers_->fid, 0);
  if (rc == 0) rc = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (rc == 0) rc = fi_enable(endpoint);
  if (rc != 0) return failed("fi_enable", rc);
  std::array<std::byte, 256> address;
  std::size_t length = address.size();
  rc = fi_getname(&endpoint->fid, address.data(), &length);
  if (rc != 0) return failed("fi_getname", rc);
  const int inserted = fi_av_insert(peers_.get(), address.data(), 1, &self_, 0, nullptr);
  if (inserted != 1) return failed("fi_av_insert", inserted < 0 ? inserted : -FI_EINVAL);
  endpoint_ = std::move(made);
  return {};
}

Status OfiReadFlush::read(const RemoteMemory& memory) {
  const iovec piece{target_->data(), 1};
  const fi_rma_iov source{memory.address, 1, memory.key};
  void* description = fi_mr_desc(target_memory_.get());
  return wait_for({&piece, &description, 1, self_, &source, 1, &notes_, 0});
}

// Timeout says that the provider still has the read.
Status OfiReadFlush::wait_for(const fi_msg_rma& message) {
  const Deadline deadline = Deadline::after_ms(kMostMs);
  const Deadline soon = Deadline::after_ms(1);
  std::int64_t posted = -FI_EAGAIN;
  // The last look is after the deadline: this process may have been stopped.
  for (bool late = false; !late;) {
    late = deadline.passed();
    if (posted == -FI_EAGAIN) posted = fi_readmsg(endpoint_.get(), &message, FI_COMPLETION);
    if (posted != 0 && posted != -FI_EAGAIN) return failed("fi_readmsg", posted);
    fi_cq_data_entry entry{};
    const auto count = fi_cq_read(queue_.get(), &entry, 1);
    if (count == 1 && entry.op_context == &notes_) return {};
    if (count == -FI_EAVAIL) return Error{ErrorCode::System, failure()};
    if (count < 0 && count != -FI_EAGAIN) return failed("fi_cq_read", count);
    if (count <= 0 && soon.passed()) ::poll(nullptr, 0, 1);
    if (count <= 0) ::sched_yield();
  }
  return Error{ErrorCode::Timeout, fmt::format("nothing came within {} ms", kMostMs)};
}

// Returns what the queue says of a failure.
std::string OfiReadFlush::failure() {
  OfiNewer<fi_cq_err_entry> entry;
  const auto count = fi_cq_readerr(queue_.get(), &entry.known, 0);
  return count < 1 ? "its queue failed" : provider_.library->strerror(entry.known.err);
}

}  // namespace wreath
