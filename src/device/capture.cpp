// Keeps the order of captured work. Each device makes its own kind of graph from it.
#include "src/device/capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "src/device/check_copy.hpp"

namespace wreath {
namespace {

class SameWork final : public GraphWork {
 public:
  SameWork(std::function<Status()> work, SameWorkOf of) : work_(std::move(work)), of_(of) {}
  Status check() override { return {}; }
  std::function<Status()> begin() override { return work_; }
  bool is_kernel() const override { return of_ == SameWorkOf::Kernel; }

 private:
  std::function<Status()> work_;
  SameWorkOf of_;
};

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

Error misused(std::string_view where, std::string_view text) {
  return {ErrorCode::InvalidUsage, fmt::format("{} stream: {}", where, text), -1};
}

}  // namespace

LibraryStream* capturing(Stream* stream) {
  auto* const own = dynamic_cast<LibraryStream*>(stream);
  return own != nullptr && own->capturing() ? own : nullptr;
}

Status takes_calls(const Stream* stream) {
  const auto* const own = dynamic_cast<const LibraryStream*>(stream);
  return own == nullptr ? Status() : own->takes_calls();
}

std::uint64_t capture_number(const LibraryStream& stream) {
  const CapturePart in = stream.capture_part();
  return in.capture == nullptr ? 0 : in.capture->number();
}

Status guard_graph(const LibraryStream& stream, std::shared_ptr<GraphGuard> guard) {
  const CapturePart in = stream.capture_part();
  if (in.capture == nullptr) return misused(stream.device().name(), "it captures no more");
  in.capture->guard(std::move(guard));
  return {};
}

std::shared_ptr<GraphWork> same_work(std::function<Status()> work, SameWorkOf of) {
  return std::make_shared<SameWork>(std::move(work), of);
}

// ---- guards ----

Status GraphGuards::check() {
  for (const auto& guard : each_) WREATH_TRY(guard->check());
  return {};
}

Status GraphGuards::before(Stream& stream) {
  for (const auto& guard : each_) WREATH_TRY(guard->before(stream));
  return {};
}

Status GraphGuards::after(Stream& stream) {
  for (const auto& guard : each_) WREATH_TRY(guard->after(stream));
  return {};
}

// ---- captures ----

Capture::Capture(std::string where) : where_(std::move(where)), number_(next_number()), branches_(1) {}

bool Capture::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

std::size_t Capture::add_branch() {
  const std::lock_guard lock(mutex_);
  branches_.emplace_back();
  return branches_.size() - 1;
}

Status Capture::valid() const { return invalid_ ? Status(*invalid_) : Status(); }

Status Capture::add(std::size_t branch, std::shared_ptr<GraphWork> work) {
  const std::lock_guard lock(mutex_);
  WREATH_TRY(valid());
  items_.push_back({CapturedItem::Kind::Work, branch, std::move(work)});
  Seen& seen = branches_[branch];
  seen.resize(std::max(seen.size(), branch + 1));
  ++seen[branch];
  return {};
}

void Capture::guard(std::shared_ptr<GraphGuard> guard) {
  const std::lock_guard lock(mutex_);
  guards_.add(std::move(guard));
}

std::size_t Capture::record(std::size_t branch) {
  const std::lock_guard lock(mutex_);
  points_.push_back(branches_[branch]);
  items_.push_back({CapturedItem::Kind::Record, branch, nullptr, points_.size() - 1});
  return points_.size() - 1;
}

void Capture::merge(Seen& into, const Seen& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

Status Capture::wait(std::size_t branch, std::size_t point) {
  const std::lock_guard lock(mutex_);
  WREATH_TRY(valid());
  items_.push_back({CapturedItem::Kind::Wait, branch, nullptr, point});
  merge(branches_[branch], points_[point]);
  return {};
}

Status Capture::invalidate(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!invalid_) invalid_ = misused(where_, fmt::format("the capture is invalid: {}", reason));
  return *invalid_;
}

// Fails unless the first branch comes after all that the other branches have.
Status Capture::joined() const {
  Seen first = branches_.front();
  first.resize(branches_.size());
  for (std::size_t i = 1; i < branches_.size(); ++i) {
    if (branches_[i].size() > i && branches_[i][i] > first[i]) {
      return misused(where_,
                     "end_capture: a stream that joined the capture has work that the stream that began it does not "
                     "wait for");
    }
  }
  return {};
}

Result<CapturedItems> Capture::end(std::size_t branch) {
  const std::lock_guard lock(mutex_);
  if (branch != 0) return misused(where_, "end_capture: another stream began this capture");
  open_ = false;
  WREATH_TRY(valid());
  WREATH_TRY(joined());
  return CapturedItems{std::move(items_), std::move(guards_), branches_.size(), points_.size()};
}

// ---- membership ----

void CaptureMembership::set(CapturePart part) {
  const std::lock_guard lock(mutex_);
  part_ = std::move(part);
}

CapturePart CaptureMembership::any() const {
  const std::lock_guard lock(mutex_);
  return part_;
}

CapturePart CaptureMembership::open() const {
  const CapturePart part = any();
  return part.capture != nullptr && part.capture->open() ? part : CapturePart{};
}

Status wait_for_captured(CaptureMembership& stream, const CapturePart& event, std::string_view where) {
  if (!event.capture->open()) return misused(where, "wait: the event was recorded in a capture that has ended");
  CapturePart own = stream.open();
  if (own.capture == nullptr) {
    own = {event.capture, event.capture->add_branch()};
    stream.set(own);
  }
  if (own.capture == event.capture) return own.capture->wait(own.at, event.at);
  static_cast<void>(event.capture->invalidate("a stream of another capture was to wait for its event"));
  return own.capture->invalidate("one of its streams was to wait for an event of another capture");
}

// ---- launches ----

Status Replay::status() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : usable_();
}

Status Replay::run(const std::function<Status()>& work, std::string_view where) {
  WREATH_TRY(status());
  Status outcome = outcome_of(work, where);
  if (outcome) return outcome;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = outcome.error();
  }
  fail_(outcome.error());
  return outcome;
}

}  // namespace wreath
