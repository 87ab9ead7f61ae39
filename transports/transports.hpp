// What each folder here gives to the registry.
#pragma once

#include <memory>

#include "wreath/transport.hpp"

namespace wreath {

Result<std::unique_ptr<Transport>> make_inproc(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_shm(const TransportContext& context);
Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context);

Result<std::unique_ptr<Transport>> make_faulty(std::unique_ptr<Transport> inner, const TransportContext& context);
Status check_faults(std::string_view faults);

}  // namespace wreath
