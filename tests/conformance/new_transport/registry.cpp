// These tables are linked in place of transports/registry.cpp. None of the library's transports is in them.
#include "wreath/transport.hpp"

namespace wreath {
namespace test {

Result<std::unique_ptr<Transport>> make_foo(const TransportContext& context);

}  // namespace test

namespace {

Status refuse() { return Error{ErrorCode::Unavailable, "no adapter is here"}; }

constexpr TransportRow kTestRows[] = {
    {"unusable", SharedMemory::None, true, &test::make_foo, &refuse},
    {"foo", SharedMemory::None, true, &test::make_foo},
};

}  // namespace

std::span<const TransportRow> transports() noexcept { return kTestRows; }

std::span<const DecoratorRow> transport_decorators() noexcept { return {}; }

}  // namespace wreath
