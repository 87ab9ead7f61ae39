// Reads through a queue pair that is connected with itself: see read_flush.hpp.
#include "transports/verbs/read_flush.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "transports/verbs/adapter.hpp"
#include "transports/verbs/words.hpp"

namespace wreath {

namespace {

// Nobody else goes on meanwhile. By default the adapter itself gives up before.
std::int64_t most_ms(const VerbsSettings& settings) {
  return std::min<std::int64_t>(5'000, 1'000 + (settings.retry_count + 1) * (4096LL << settings.timeout) / 1'000'000);
}

}  // namespace

ReadFlush::ReadFlush(VerbsAdapter& adapter)
    : adapter_(adapter),
      most_ms_(most_ms(adapter.settings())),
      target_memory_(nullptr, adapter.device().library().dereg_mr),
      queue_(nullptr, adapter.device().library().destroy_cq) {}

Status ReadFlush::flush(const RemoteMemory& memory) {
  const Deadline deadline = Deadline::after_ms(most_ms_);
  for (bool again = false;; again = true) {
    Status done = pair_ ? Status() : prepare();
    if (done) done = read(memory, deadline);
    if (done) return done;
    pair_.reset();
    const bool was_down = done.error().code == ErrorCode::Unavailable || !adapter_.usable();
    if (deadline.passed() || (again && !was_down)) {
      return Error{ErrorCode::System, fmt::format("memory of a device was not flushed: {}", done.error().message)};
    }
    if (was_down) ::poll(nullptr, 0, 1);
  }
}

Status ReadFlush::prepare() {
  const VerbsDevice& device = adapter_.device();
  if (target_memory_ == nullptr) {
    auto target = Region::create(1, false, "the target of reads");
    if (!target) return target.error();
    const auto made = device.register_memory({(*target)->data(), (*target)->bytes()}, IBV_ACCESS_LOCAL_WRITE);
    if (!made) return made.error();
    target_ = *std::move(target);
    target_memory_.reset(*made);
  }
  queue_.reset(device.library().create_cq(device.context(), 2, &adapter_.news(), nullptr, 0));
  if (queue_ == nullptr) {
    return Error{ErrorCode::System,
                 fmt::format("{}: no completion queue for reads: {}", adapter_.describe(), std::strerror(errno))};
  }
  pair_.emplace(adapter_);
  WREATH_TRY(pair_->make(*queue_, {1, 1, 1, 1, 0}));
  WREATH_TRY(pair_->prepare(IBV_ACCESS_REMOTE_READ));
  return pair_->connect(pair_->address());
}

Status ReadFlush::read(const RemoteMemory& memory, const Deadline& deadline) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(target_->data()), 1, target_memory_->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {memory.address, static_cast<std::uint32_t>(memory.key)};
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(pair_->get(), &request, &refused); error != 0) {
    return pair_->explain(ErrorCode::System, fmt::format("a read was not posted: {}", std::strerror(error)));
  }
  ibv_wc completion{};
  int count = 0;
  // The last look is after the deadline: this process may have been stopped.
  for (bool late = false; count == 0 && !late;) {
    late = deadline.passed();
    count = ibv_poll_cq(queue_.get(), 1, &completion);
    if (count == 0) ::sched_yield();
  }
  if (count == 1 && completion.status == IBV_WC_SUCCESS) return {};
  std::string why = fmt::format("nothing came within {} ms", most_ms_);
  if (count < 0) why = "its completion queue failed";
  if (count > 0) {
    why = fmt::format("{} (vendor's error {:#x})", status_words(completion.status, false).text, completion.vendor_err);
  }
  return pair_->explain(pair_->was_disturbed() ? ErrorCode::Unavailable : ErrorCode::System,
                        fmt::format("a read failed: {}", why));
}

}  // namespace wreath
