// Seals messages: see seal.hpp. The digest is BLAKE2b's, the seal HMAC-SHA256's.
#include "src/bootstrap/seal.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/key.hpp"

namespace wreath {
namespace {

static_assert(kSealBytes == kTagBytes);

constexpr std::string_view kOfConnector = "wreath message of the connector ";
constexpr std::string_view kOfAcceptor = "wreath message of the acceptor  ";

Error altered(std::string_view what) {
  return {ErrorCode::StartupFailed, fmt::format("a message was altered on its way: its {} is wrong", what)};
}

}  // namespace

Content::Digest Content::digest_of(std::span<const std::byte> bytes) {
  Digest digest{};
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr, 0);
  return digest;
}

std::array<std::byte, kSealBytes> Seal::tag(bool of_connector, std::uint64_t number,
                                            const Content::Digest& digest) const {
  Writer writer;
  writer.raw(std::as_bytes(std::span(of_connector ? kOfConnector : kOfAcceptor)));
  writer.number(number);
  writer.raw(digest);
  return key_->tag(writer.take());
}

std::vector<std::byte> Seal::write(const Content& content) {
  const auto length = static_cast<std::uint32_t>(content.bytes().size());
  Writer frame;
  frame.number(length);
  frame.number(~length);
  frame.raw(content.bytes());
  frame.raw(tag(connects_, written_++, content.digest_));
  return frame.take();
}

Result<std::size_t> Seal::length(std::span<const std::byte, kFrameHeaderBytes> header, std::size_t most) {
  Reader reader(header);
  const auto length = reader.number<std::uint32_t>();
  const auto complement = reader.number<std::uint32_t>();
  if (complement != ~length) return altered("length");
  if (length >= 1 && length <= most) return std::size_t{length};
  return Error{ErrorCode::StartupFailed, fmt::format("a message of {} bytes was announced", length)};
}

Status Seal::read(std::span<const std::byte> content, std::span<const std::byte, kSealBytes> seal) {
  const auto expected = tag(!connects_, read_++, Content::digest_of(content));
  if (sodium_memcmp(expected.data(), seal.data(), seal.size()) == 0) return {};
  return altered("seal");
}

}  // namespace wreath
