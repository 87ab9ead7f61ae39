// Writes recordings as JSON, and reads them by a bounded decoder that takes any text.
#include "src/recorder/json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "src/base/text_file.hpp"
#include "src/json/reader.hpp"

namespace wreath {
namespace {

constexpr std::string_view kFormat = "wreath-recording";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::size_t kMaximumFileBytes = 1 << 20;
constexpr std::string_view kSent = "send";
constexpr std::string_view kReceived = "recv";

std::string communicator_text(std::uint64_t communicator) { return fmt::format("{:016x}", communicator); }

Json call_to_json(const CallRecord& call) {
  return {{"number", call.number},
          {"collective", name(call.collective, call.varying)},
          {"dtype", name(call.dtype)},
          {"op", name(call.op)},
          {"root", call.root},
          {"count", call.count},
          {"algorithm", call.algorithm.view()},
          {"state", name(call.state)},
          {"entered_ns", call.entered_ns},
          {"done_ns", call.done_ns}};
}

Json message_to_json(const MessageRecord& message) {
  return {{"exchange", message.exchange}, {"direction", message.sent ? kSent : kReceived},
          {"peer", message.peer},         {"dtype", name(message.dtype)},
          {"count", message.count},       {"number", message.number}};
}

using Reader = JsonReader;

constexpr std::int64_t kMaximumInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaximumInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMinimumInt64 = std::numeric_limits<std::int64_t>::min();
constexpr CallState kStates[] = {CallState::Entered, CallState::Running, CallState::Done, CallState::Failed};

// Reads a collective or one of its v-forms.
void read_collective(Reader& reader, CallRecord& call) {
  const std::string wanted = reader.text("collective");
  for (const Collective collective : all_collectives()) {
    for (const bool varying : {false, true}) {
      if (name(collective, varying) != wanted) continue;
      call.collective = collective;
      call.varying = varying && name(collective) != wanted;
      return;
    }
  }
  reader.refuse("collective", fmt::format("is '{}', which this program does not know", wanted.substr(0, 40)));
}

Result<CallRecord> call_from_json(const Json& object) {
  if (!object.is_object()) return Error{ErrorCode::InvalidArgument, "it is not an object"};
  Reader reader(object);
  CallRecord call;
  call.number = static_cast<std::uint64_t>(reader.integer("number", 1, kMaximumInt64));
  read_collective(reader, call);
  call.dtype = reader.choice<DataType>("dtype", all_dtypes());
  call.op = reader.choice<ReduceOp>("op", all_ops());
  call.root = static_cast<Rank>(reader.integer("root", 0, kMaximumInt));
  call.count = static_cast<std::uint64_t>(reader.integer("count", 0, kMaximumInt64));
  call.algorithm = std::string_view(reader.text("algorithm"));
  call.state = reader.choice<CallState>("state", kStates);
  call.entered_ns = reader.integer("entered_ns", kMinimumInt64, kMaximumInt64);
  call.done_ns = reader.integer("done_ns", kMinimumInt64, kMaximumInt64);
  if (reader.refusal()) return Error{ErrorCode::InvalidArgument, *reader.refusal()};
  return call;
}

std::uint64_t communicator_from(Reader& reader) {
  const std::string text = reader.text("communicator");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) reader.refuse("communicator", "is not hexadecimal");
  return value;
}

// Reads calls, which must be in rising order of their numbers, so that readers need not care.
void calls_from(Reader& reader, const char* key, std::vector<CallRecord>& calls) {
  const Json* objects = reader.array(key, kRecordedCalls);
  if (objects == nullptr) return;
  for (const Json& object : *objects) {
    const Result<CallRecord> call = call_from_json(object);
    if (!call) return reader.refuse(key, fmt::format("entry {}: {}", calls.size(), call.error().message));
    if (!calls.empty() && call->number <= calls.back().number) return reader.refuse(key, "are not in order");
    calls.push_back(*call);
  }
}

Result<MessageRecord> message_from_json(const Json& object, int ranks) {
  if (!object.is_object()) return Error{ErrorCode::InvalidArgument, "it is not an object"};
  Reader reader(object);
  MessageRecord message;
  message.exchange = static_cast<std::uint64_t>(reader.integer("exchange", 1, kMaximumInt64));
  const std::string direction = reader.text("direction");
  message.sent = direction == kSent;
  if (!message.sent && direction != kReceived) {
    reader.refuse("direction", fmt::format("is neither '{}' nor '{}'", kSent, kReceived));
  }
  message.peer = static_cast<Rank>(reader.integer("peer", 0, ranks - 1));
  message.dtype = reader.choice<DataType>("dtype", all_dtypes());
  message.count = static_cast<std::uint64_t>(reader.integer("count", 0, kMaximumInt64));
  message.number = static_cast<std::uint64_t>(reader.integer("number", 1, kMaximumInt64));
  if (reader.refusal()) return Error{ErrorCode::InvalidArgument, *reader.refusal()};
  return message;
}

void messages_from(Reader& reader, const char* key, Recording& recording) {
  const Json* objects = reader.array(key, kRecordedMessages);
  if (objects == nullptr) return;
  for (const Json& object : *objects) {
    const Result<MessageRecord> message = message_from_json(object, recording.ranks);
    if (!message) {
      return reader.refuse(key, fmt::format("entry {}: {}", recording.messages.size(), message.error().message));
    }
    recording.messages.push_back(*message);
  }
}

Recording recording_from(Reader& reader) {
  Recording recording;
  if (reader.text("format") != kFormat) reader.refuse("format", fmt::format("is not '{}'", kFormat));
  reader.integer("version", kFormatVersion, kFormatVersion);
  recording.ranks = static_cast<int>(reader.integer("ranks", 1, kMaximumInt));
  recording.rank = static_cast<Rank>(reader.integer("rank", 0, recording.ranks - 1));
  recording.pid = static_cast<std::int32_t>(reader.integer("pid", 0, kMaximumInt));
  recording.host = reader.text("host");
  recording.communicator = communicator_from(reader);
  recording.clock_offset_ns = reader.integer("clock_offset_ns", kMinimumInt64, kMaximumInt64);
  recording.taken_ns = reader.integer("taken_ns", kMinimumInt64, kMaximumInt64);
  recording.error = reader.text("error");
  recording.error_kind = reader.text("error_kind");
  recording.failed_rank = static_cast<Rank>(reader.integer("failed_rank", -1, recording.ranks - 1));
  calls_from(reader, "calls", recording.calls);
  if (reader.has("exchanges")) calls_from(reader, "exchanges", recording.exchanges);
  if (reader.has("messages")) messages_from(reader, "messages", recording);
  return recording;
}

// Returns whether `path` holds the recording of another communicator of the same process.
bool taken_by_sibling(const std::string& path, const Recording& recording) {
  const Result<Recording> there = read_recording(path);
  return there && there->pid == recording.pid && there->host == recording.host &&
         there->communicator != recording.communicator;
}

}  // namespace

std::string to_json(const Recording& recording) {
  Json object = {{"format", kFormat},
                 {"version", kFormatVersion},
                 {"rank", recording.rank},
                 {"ranks", recording.ranks},
                 {"host", recording.host},
                 {"pid", recording.pid},
                 {"communicator", communicator_text(recording.communicator)},
                 {"clock_offset_ns", recording.clock_offset_ns},
                 {"taken_ns", recording.taken_ns},
                 {"error", recording.error.substr(0, JsonReader::kMaximumTextBytes)},
                 {"error_kind", recording.error_kind},
                 {"failed_rank", recording.failed_rank},
                 {"calls", Json::array()},
                 {"exchanges", Json::array()},
                 {"messages", Json::array()}};
  for (const CallRecord& call : recording.calls) object["calls"].push_back(call_to_json(call));
  for (const CallRecord& call : recording.exchanges) object["exchanges"].push_back(call_to_json(call));
  for (const MessageRecord& message : recording.messages) object["messages"].push_back(message_to_json(message));
  return object.dump({.indent = 1, .strict = false}) + "\n";
}

Result<std::string> write_recording(const Recording& recording, const std::string& directory) {
  const std::string stem = fmt::format("{}/wreath-{}", directory.empty() ? "." : directory, recording.rank);
  std::string path = stem + ".json";
  if (taken_by_sibling(path, recording)) {
    path = fmt::format("{}-{}.json", stem, communicator_text(recording.communicator));
  }
  WREATH_TRY(replace_file(path, fmt::format("{}-{:x}", recording.pid, recording.communicator), to_json(recording)));
  return path;
}

Result<Recording> parse_recording(std::string_view text, std::string_view source) {
  const auto wrong = [&](std::string_view reason) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: {}", source, reason)};
  };
  const auto object = parse_object(text, source, kMaximumFileBytes);
  if (!object) return object.error();
  Reader reader(*object);
  Recording recording = recording_from(reader);
  if (reader.refusal()) return wrong(*reader.refusal());
  recording.source = source;
  return recording;
}

Result<Recording> read_recording(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaximumFileBytes);
  if (!text) return text.error();
  return parse_recording(*text, path);
}

}  // namespace wreath
