// Messages of shrink become bytes here.
#include "src/membership/shrink_message.hpp"

#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

void write_view(Writer& writer, const View& view) {
  const auto* text = reinterpret_cast<const char*>(view.data());
  writer.text({text, view.size()}, kMaximumRanks);
}

View read_view(Reader& reader) {
  const std::string text = reader.opaque(kMaximumRanks);
  View view;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) > static_cast<unsigned char>(Fate::Gone)) reader.fail();
    view.push_back(static_cast<Fate>(c));
  }
  return view;
}

}  // namespace

std::string encode_shrink(const ShrinkMessage& message) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(message.meeting.has_value()));
  if (message.meeting) writer.raw(message.meeting->bytes);
  const Statement& statement = message.statement;
  writer.number(static_cast<std::uint8_t>(statement.kind));
  write_view(writer, statement.view);
  write_view(writer, statement.joined);
  writer.number(static_cast<std::uint8_t>(statement.code));
  writer.number(statement.failed_rank);
  writer.text(statement.reason, kMaxTextBytes);
  return writer.take_string();
}

Result<ShrinkMessage> decode_shrink(const std::string& body, int ranks) {
  Reader reader(std::as_bytes(std::span(body)));
  ShrinkMessage message;
  if (reader.flag()) {
    message.meeting.emplace();
    reader.raw(message.meeting->bytes);
  }
  Statement& statement = message.statement;
  const auto kind = reader.number<std::uint8_t>();
  statement.kind = static_cast<Statement::Kind>(kind);
  statement.view = read_view(reader);
  statement.joined = read_view(reader);
  const auto code = reader.number<std::uint8_t>();
  statement.code = static_cast<ErrorCode>(code);
  statement.failed_rank = reader.number<Rank>();
  statement.reason = reader.text(kMaxTextBytes);
  const bool refused = statement.kind == Statement::Kind::Refused;
  const bool sized = statement.view.size() == static_cast<std::size_t>(ranks) &&
                     (statement.joined.empty() || statement.joined.size() == static_cast<std::size_t>(ranks));
  if (!reader.complete() || kind > static_cast<std::uint8_t>(Statement::Kind::Refused) ||
      code > static_cast<std::uint8_t>(ErrorCode::System) || !(refused || sized)) {
    return Error{ErrorCode::System, "a malformed message of shrink"};
  }
  return message;
}

}  // namespace wreath
