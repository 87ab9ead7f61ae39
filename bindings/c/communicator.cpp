// Makes ids, communicators, and communicators out of communicators.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bindings/c/handles.hpp"
#include "bindings/c/options.hpp"
#include "bindings/c/status.hpp"

using namespace wreath;
using namespace wreath::c_api;

namespace {

static_assert(sizeof(wreath_unique_id) == sizeof(UniqueId));

// Copies text with an end, cut to `size` bytes.
Status copy_text(std::string_view text, char* target, std::size_t size) {
  WREATH_TRY(given(target, "text"));
  if (size == 0) return Error{ErrorCode::InvalidArgument, "size = 0", -1};
  const std::size_t bytes = std::min(text.size(), size - 1);
  std::memcpy(target, text.data(), bytes);
  target[bytes] = '\0';
  return {};
}

UniqueId id_of(const wreath_unique_id& id) {
  UniqueId own;
  std::memcpy(own.bytes.data(), id.bytes, sizeof id.bytes);
  return own;
}

Status put_id(const Result<UniqueId>& made, wreath_unique_id* id) {
  if (!made) return made.error();
  std::memcpy(id->bytes, made->bytes.data(), sizeof id->bytes);
  return {};
}

// Gives the caller all handles or none.
Status put_all(Result<std::vector<Communicator>> made, wreath_communicator** communicators) {
  if (!made) return made.error();
  std::vector<std::unique_ptr<wreath_communicator>> handles;
  for (Communicator& one : *made) handles.emplace_back(new wreath_communicator{std::move(one)});
  std::transform(handles.begin(), handles.end(), communicators, [](auto& handle) { return handle.release(); });
  return {};
}

// Gives the caller a handle of what `derive` makes of the parent.
template <typename Derive>
int derived(wreath_communicator* parent, wreath_communicator** child, Derive derive) noexcept {
  return guarded([&]() -> Status {
    WREATH_TRY(given(parent, "parent"));
    WREATH_TRY(given(child, "child"));
    return hand_over(derive(parent->communicator), child);
  });
}

}  // namespace

extern "C" {

int wreath_unique_id_create(const char* address, wreath_unique_id* id) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(id, "id"));
    return put_id(UniqueId::create(address == nullptr ? std::string_view() : std::string_view(address)), id);
  });
}

int wreath_unique_id_format(const wreath_unique_id* id, char* text, size_t size) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(id, "id"));
    const std::string whole = id_of(*id).to_string();
    if (size > whole.size()) return copy_text(whole, text, size);
    return Error{ErrorCode::InvalidArgument,
                 "size = " + std::to_string(size) + ": the text takes " + std::to_string(whole.size() + 1) + " bytes",
                 -1};
  });
}

int wreath_unique_id_parse(const char* text, wreath_unique_id* id) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(text, "text"));
    WREATH_TRY(given(id, "id"));
    return put_id(UniqueId::parse(std::string_view(text, ::strnlen(text, 2 * sizeof id->bytes + 1))), id);
  });
}

int wreath_communicator_from_environment(const char* const* options, wreath_communicator** communicator) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicator, "communicator"));
    const auto read = read_options(options);
    if (!read) return read.error();
    return hand_over(Communicator::create_from_environment(*read), communicator);
  });
}

int wreath_communicator_create(const wreath_unique_id* id, int rank, int ranks, const char* const* options,
                               wreath_communicator** communicator) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(id, "id"));
    WREATH_TRY(given(communicator, "communicator"));
    const auto read = read_options(options);
    if (!read) return read.error();
    return hand_over(Communicator::create(id_of(*id), rank, ranks, *read), communicator);
  });
}

int wreath_communicator_local(int ranks, const char* const* options, wreath_communicator** communicators) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicators, "communicators"));
    const auto read = read_options(options);
    if (!read) return read.error();
    return put_all(Communicator::create_local(ranks, *read), communicators);
  });
}

void wreath_communicator_destroy(wreath_communicator* communicator) {
  guarded([&] {
    delete communicator;  // NOLINT(cppcoreguidelines-owning-memory)
    return Status();
  });
}

int wreath_communicator_rank(const wreath_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.rank();
}

int wreath_communicator_ranks(const wreath_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.ranks();
}

int wreath_communicator_error(const wreath_communicator* communicator) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicator, "communicator"));
    return communicator->communicator.error();
  });
}

int wreath_communicator_abort(wreath_communicator* communicator) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicator, "communicator"));
    return communicator->communicator.abort();
  });
}

int wreath_communicator_split(wreath_communicator* parent, int color, int key, wreath_communicator** child) {
  return derived(parent, child, [&](Communicator& of) { return of.split(color, key); });
}

int wreath_communicator_duplicate(wreath_communicator* parent, wreath_communicator** child) {
  return derived(parent, child, [](Communicator& of) { return of.duplicate(); });
}

int wreath_communicator_shrink(wreath_communicator* parent, int64_t timeout_ms, wreath_communicator** child) {
  return derived(parent, child, [&](Communicator& of) { return of.shrink(timeout_ms); });
}

int wreath_communicator_transport(const wreath_communicator* communicator, int peer, char* text, size_t size) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicator, "communicator"));
    return copy_text(communicator->communicator.transport_to(peer), text, size);
  });
}
}
