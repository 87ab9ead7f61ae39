// This file counts payload and time by group and operation.
#include "training/mesh/accounting.hpp"

namespace wreath::training {

void CommunicationAccounting::add(const std::string& group, const std::string& operation, std::uint64_t bytes) {
  Traffic& traffic = traffic_[{group, operation}];
  ++traffic.calls;
  traffic.bytes += bytes;
}

void CommunicationAccounting::add_seconds(const std::string& group, const std::string& operation, double seconds) {
  traffic_[{group, operation}].seconds += seconds;
}

void CommunicationAccounting::add_wire(const std::string& group, const std::string& operation, std::uint64_t bytes) {
  if (bytes > 0) traffic_[{group, operation}].wire_bytes += bytes;
}

Traffic CommunicationAccounting::of(const std::string& group, const std::string& operation) const {
  const auto found = traffic_.find({group, operation});
  return found == traffic_.end() ? Traffic{} : found->second;
}

double CommunicationAccounting::seconds() const noexcept {
  double sum = 0;
  for (const auto& [key, traffic] : traffic_) sum += traffic.seconds;
  return sum;
}

}  // namespace wreath::training
