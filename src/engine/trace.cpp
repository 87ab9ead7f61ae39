// Each event becomes one line of JSON.
#include "src/engine/trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>
#include <system_error>

#include "src/json/value.hpp"
#include "src/schedule/show.hpp"

namespace wreath {
namespace {

constexpr int kCallsRow = 0;  // lanes follow

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

Json named(Rank rank, const char* what, int row, const std::string& text) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", text}}}};
}

class TraceWriter {
 public:
  explicit TraceWriter(std::FILE* file) : file_(file) {
    std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file);
  }
  void add(const Json& event) {
    if (!first_) std::fputs(",\n", file_);
    first_ = false;
    std::fputs(event.dump({.sorted = true}).c_str(), file_);
  }
  bool finish() {
    std::fputs("\n]}\n", file_);
    return std::fflush(file_) == 0 && std::ferror(file_) == 0;
  }

 private:
  std::FILE* file_;
  bool first_ = true;
};

Json step_event(Rank rank, const StepEvent& event) {
  return {{"name", name(event.op)},
          {"cat", "step"},
          {"ph", "X"},
          {"pid", rank},
          {"tid", event.lane + 1},
          {"ts", microseconds(event.begin_ns)},
          {"dur", microseconds(event.end_ns - event.begin_ns)},
          {"args", {{"call", event.call}, {"step", event.step}, {"tile", event.tile}}}};
}

}  // namespace

Trace::Trace(std::string directory, std::uint64_t communicator, Rank rank, std::string identity)
    : path_(fmt::format("{}/wreath-trace-{:016x}-{}.json", directory, communicator, rank)),
      rank_(rank),
      identity_(std::move(identity)) {}

void Trace::begin_call(const CallRecord& record, std::int64_t now_ns) {
  steps_.begin_call(record.number);
  if (calls_.size() == kMaximumCalls) return;
  calls_.push_back({record.number, describe(record), std::string(record.algorithm.view()), now_ns});
}

void Trace::end_call(std::int64_t now_ns) {
  if (!calls_.empty() && calls_.back().end_ns == 0) calls_.back().end_ns = now_ns;
}

Result<std::string> Trace::write(std::int64_t now_ns) const {
  const std::string draft = fmt::format("{}.{}", path_, ::getpid());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(draft.c_str(), "we"), &std::fclose);
  const auto refused = [&] {
    const std::string reason = std::system_category().message(errno);
    std::remove(draft.c_str());
    return Error{ErrorCode::System, fmt::format("cannot write the trace {}: {}", path_, reason)};
  };
  if (file == nullptr) return refused();
  TraceWriter writer(file.get());
  writer.add(named(rank_, "process_name", kCallsRow, identity_));
  writer.add(named(rank_, "thread_name", kCallsRow, "calls"));
  std::set<int> lanes;
  for (const StepEvent& event : steps_.events()) lanes.insert(event.lane);
  for (const int lane : lanes) writer.add(named(rank_, "thread_name", lane + 1, fmt::format("lane {}", lane)));
  for (const CallEvent& call : calls_) {
    const std::int64_t end_ns = call.end_ns == 0 ? now_ns : call.end_ns;
    writer.add({{"name", call.text},
                {"cat", "call"},
                {"ph", "X"},
                {"pid", rank_},
                {"tid", kCallsRow},
                {"ts", microseconds(call.begin_ns)},
                {"dur", microseconds(end_ns - call.begin_ns)},
                {"args", {{"call", call.number}, {"algorithm", call.algorithm}, {"over", call.end_ns != 0}}}});
  }
  for (const StepEvent& event : steps_.events()) writer.add(step_event(rank_, event));
  if (steps_.dropped() > 0) {
    writer.add(named(rank_, "process_labels", kCallsRow, fmt::format("{} later steps left out", steps_.dropped())));
  }
  if (!writer.finish() || std::rename(draft.c_str(), path_.c_str()) != 0) return refused();
  return path_;
}

}  // namespace wreath
