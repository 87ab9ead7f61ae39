// Each message goes to the handlers of its kind.
#include "src/membership/control_handlers.hpp"

#include <fmt/format.h>

namespace wreath {

Status ControlHandlers::complete() const {
  std::string missing;
  for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
    if (by_kind_[kind].empty()) missing += fmt::format(" {}", name(static_cast<MessageKind>(kind)));
  }
  if (lost_.empty()) missing += " loss";
  if (unable_.empty()) missing += " inability";
  if (missing.empty()) return {};
  return Error{ErrorCode::System, "nothing handles these control messages:" + missing, -1};
}

void ControlHandlers::message(Rank from, ControlMessage message) const {
  for (const OnMessage& handler : by_kind_[static_cast<std::size_t>(message.kind)]) handler(from, message);
}

void ControlHandlers::lost(const Loss& loss) const {
  for (const OnLost& handler : lost_) handler(loss);
}

void ControlHandlers::unable(const Error& error) const {
  for (const OnUnable& handler : unable_) handler(error);
}

}  // namespace wreath
