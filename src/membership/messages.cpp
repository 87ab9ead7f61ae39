// Control messages become bytes here. The decoder bounds every field.
#include "src/membership/messages.hpp"

#include <array>

#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaxOfferBytes = 64 * 1024;
constexpr std::size_t kMaxBodyBytes = 64 * 1024;
constexpr std::array<std::string_view, kMessageKinds> kKindNames = {
    "Offer",  "Verdict", "Candidates", "Linked", "Region", "Word",    "Query", "State",
    "Failed", "Goodbye", "Departed",   "Shrink", "Split",  "Process", "Ended"};
constexpr std::uint8_t kErrorCodes = static_cast<std::uint8_t>(ErrorCode::System) + 1;

void write_record(Writer& writer, const CallRecord& record) {
  writer.number(record.number);
  writer.number(static_cast<std::uint8_t>(record.collective));
  writer.number(static_cast<std::uint8_t>(record.varying));
  writer.number(static_cast<std::uint8_t>(record.dtype));
  writer.number(static_cast<std::uint8_t>(record.op));
  writer.number(static_cast<std::uint8_t>(record.state));
  writer.number(record.root);
  writer.number(record.count);
}

template <typename Enum>
Enum read_enum(Reader& reader, std::uint8_t values) {
  const auto value = reader.number<std::uint8_t>();
  if (value >= values) reader.fail();
  return static_cast<Enum>(value);
}

CallRecord read_record(Reader& reader) {
  CallRecord record;
  record.number = reader.number<std::uint64_t>();
  record.collective = read_enum<Collective>(reader, static_cast<std::uint8_t>(all_collectives().size()));
  record.varying = reader.flag();
  record.dtype = read_enum<DataType>(reader, static_cast<std::uint8_t>(all_dtypes().size()));
  record.op = read_enum<ReduceOp>(reader, static_cast<std::uint8_t>(all_ops().size()));
  record.state = read_enum<CallState>(reader, static_cast<std::uint8_t>(CallState::Failed) + 1);
  record.root = reader.number<Rank>();
  record.count = reader.number<std::uint64_t>();
  return record;
}

}  // namespace

std::string_view name(MessageKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::vector<std::byte> encode_control(const ControlMessage& message) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(message.kind));
  writer.number(message.index);
  writer.number(message.number);
  writer.number(static_cast<std::uint8_t>(message.entered));
  write_record(writer, message.record);
  write_record(writer, message.last);
  const Progressed& done = message.done;
  for (const std::uint64_t number : {done.calls, done.sent, done.received, done.hash}) writer.number(number);
  writer.number(static_cast<std::uint8_t>(message.earlier.size()));
  for (const CallRecord& record : message.earlier) write_record(writer, record);
  writer.number(static_cast<std::uint8_t>(message.error.code));
  writer.number(static_cast<std::int32_t>(message.error.failed_rank));
  writer.text(message.error.message, kMaxTextBytes);
  writer.text(message.text, kMaxTextBytes);
  writer.text(message.body, kMaxBodyBytes);
  const auto* offer = reinterpret_cast<const char*>(message.offer.bytes.data());
  writer.text({offer, message.offer.bytes.size()}, kMaxOfferBytes);
  writer.number(static_cast<std::uint8_t>(message.offer.descriptors.size()));
  return writer.take();
}

Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  ControlMessage message;
  message.kind = read_enum<MessageKind>(reader, kMessageKinds);
  message.index = reader.number<std::uint32_t>();
  message.number = reader.number<std::uint64_t>();
  message.entered = reader.flag();
  message.record = read_record(reader);
  message.last = read_record(reader);
  Progressed& done = message.done;
  for (std::uint64_t* number : {&done.calls, &done.sent, &done.received, &done.hash}) {
    *number = reader.number<std::uint64_t>();
  }
  const auto earlier = reader.number<std::uint8_t>();
  if (earlier > kEarlierCalls) reader.fail();
  for (std::size_t i = 0; i < earlier && i < kEarlierCalls; ++i) message.earlier.push_back(read_record(reader));
  message.error.code = read_enum<ErrorCode>(reader, kErrorCodes);
  message.error.failed_rank = reader.number<std::int32_t>();
  message.error.message = reader.text(kMaxTextBytes);
  message.text = reader.text(kMaxTextBytes);
  message.body = reader.opaque(kMaxBodyBytes);
  const std::string offer = reader.opaque(kMaxOfferBytes);
  const auto* data = reinterpret_cast<const std::byte*>(offer.data());
  message.offer.bytes.assign(data, data + offer.size());
  // The connection puts the descriptors that came along here.
  message.offer.descriptors.assign(reader.number<std::uint8_t>(), -1);
  if (!reader.complete()) return Error{ErrorCode::System, "a malformed control message"};
  return message;
}

}  // namespace wreath
