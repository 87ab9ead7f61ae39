// Writes the flight recorder.
#include "src/recorder/recorder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "src/base/config.hpp"
#include "src/base/memfd.hpp"
#include "src/base/socket.hpp"
#include "src/recorder/json.hpp"
#include "src/recorder/layout.hpp"

namespace wreath {
namespace {

// Stores a word. Release on every word keeps each behind the odd version that announces it.
template <typename T>
void store(T& word, T value) {
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

// Keeps a record's version odd while the object lives.
class Change {
 public:
  explicit Change(std::uint32_t& version) : version_(version), before_(version) { store(version_, before_ + 1); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() { store(version_, before_ + 2); }

 private:
  std::uint32_t& version_;
  std::uint32_t before_;
};

constexpr unsigned kStateShift = 24;

struct TailWords {
  std::uint64_t word[3];
};

// Builds the words in registers: a word that is stored in bytes and loaded at once makes the processor wait.
TailWords pack(const CallRecord& call, CallState state) {
  static_assert(sizeof(ShortName) == 20);
  const auto* const name = reinterpret_cast<const char*>(&call.algorithm);
  std::uint32_t first = 0;
  TailWords words;
  std::memcpy(&first, name, 4);
  std::memcpy(&words.word[1], name + 4, 8);
  std::memcpy(&words.word[2], name + 12, 8);
  const auto form = static_cast<std::uint64_t>(call.varying ? kRecordVarying : 0);
  words.word[0] = static_cast<std::uint64_t>(call.collective) | form | static_cast<std::uint64_t>(call.dtype) << 8 |
                  static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(state) << kStateShift |
                  std::uint64_t{first} << 32;
  return words;
}

void change_state(RecordWords& words, CallState state) {
  constexpr std::uint64_t kMask = std::uint64_t{0xff} << kStateShift;
  store(words.tail[0], (words.tail[0] & ~kMask) | static_cast<std::uint64_t>(state) << kStateShift);
}

void change_algorithm(RecordWords& words, const ShortName& algorithm) {
  constexpr std::uint64_t kKept = 0xffffffff;
  const TailWords named = pack({.algorithm = algorithm}, CallState::Entered);
  store(words.tail[0], (words.tail[0] & kKept) | (named.word[0] & ~kKept));
  store(words.tail[1], named.word[1]);
  store(words.tail[2], named.word[2]);
}

std::int64_t clock_offset_ns() {
  timespec real{};
  clock_gettime(CLOCK_REALTIME, &real);
  return real.tv_sec * 1'000'000'000 + real.tv_nsec - TickPair::now().ns;
}

Error refused(const char* what) { return {ErrorCode::System, "flight recorder: " + os_error(what, errno).message}; }

RecorderHeader make_header(Rank rank, int ranks, std::uint64_t communicator) {
  RecorderHeader header{};
  header.magic = kRecorderMagic;
  header.version = kRecorderVersion;
  header.calls = kRecordedCalls;
  header.rank = rank;
  header.ranks = ranks;
  header.pid = getpid();
  header.communicator = communicator;
  header.clock_offset_ns = clock_offset_ns();
  const TickPair start = TickPair::now();
  header.start_ticks = start.ticks;
  header.start_ns = start.ns;
  gethostname(header.host, sizeof header.host - 1);
  return header;
}

// Returns the ring where the calls of a key are.
RecordRing& ring_of(RecorderMemory& memory, std::uint64_t key) {
  return (key & kExchangeKey) != 0 ? memory.exchanges : memory.calls;
}
std::uint64_t number_of(std::uint64_t key) { return key & ~kExchangeKey; }

// Returns the record of the call with that key, or nullptr when the ring holds another one.
RecordWords* record_of(RecorderMemory* memory, std::uint64_t key) {
  const std::uint64_t number = number_of(key);
  if (memory == nullptr || number == 0) return nullptr;
  RecordWords& words = ring_of(*memory, key).records[number % kRecordedCalls];
  return words.number == number ? &words : nullptr;
}

}  // namespace

FlightRecorder::FlightRecorder(FlightRecorder&& other) noexcept
    : file_(std::move(other.file_)), memory_(std::exchange(other.memory_, nullptr)) {}

FlightRecorder& FlightRecorder::operator=(FlightRecorder&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(memory_, other.memory_);
  return *this;
}

FlightRecorder::~FlightRecorder() {
  if (memory_ != nullptr) munmap(memory_, sizeof(RecorderMemory));
}

namespace {

// Makes a file that other processes can map: it has its size and keeps it. Returns none where the machine's policy or a
// limit forbids such files. The recorder is this process's own then, and only its dumps can be read.
Result<Fd> make_file() {
  if (!check_file_limit(sizeof(RecorderMemory), "flight recorder")) return Fd();
  Fd file = Fd::of_process(memfd_create(kRecorderFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file && (errno == EPERM || errno == EACCES || errno == ENOSYS)) return Fd();
  if (!file) return refused("memfd_create");
  if (const int error = posix_fallocate(file.get(), 0, sizeof(RecorderMemory)); error != 0) {
    errno = error;
    return refused("posix_fallocate");
  }
  // Readers map it only when it cannot shrink under them.
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return refused("F_ADD_SEALS");
  return file;
}

}  // namespace

Result<FlightRecorder> FlightRecorder::create(Rank rank, int ranks, std::uint64_t communicator) {
  FlightRecorder recorder;
  auto file = make_file();
  if (!file) return file.error();
  recorder.file_ = std::move(*file);
  const int flags = MAP_SHARED | MAP_POPULATE | (recorder.file_ ? 0 : MAP_ANONYMOUS);
  void* const base = mmap(nullptr, sizeof(RecorderMemory), PROT_READ | PROT_WRITE, flags, recorder.file_.get(), 0);
  if (base == MAP_FAILED) return refused("mmap");
  recorder.memory_ = static_cast<RecorderMemory*>(base);
  recorder.memory_->header = make_header(rank, ranks, communicator);
  return recorder;
}

std::uint64_t FlightRecorder::enter(const CallRecord& call, std::uint64_t given) noexcept {
  if (memory_ == nullptr) return given;
  const std::uint64_t key_bit = call.collective == Collective::Exchange ? kExchangeKey : 0;
  RecordRing& ring = ring_of(*memory_, key_bit);
  const std::uint64_t number = given != 0 ? given : ring.last + 1;
  RecordWords& words = ring.records[number % kRecordedCalls];
  {
    const Change change(words.version);
    store(words.root, call.root);
    store(words.number, number);
    store(words.count, call.count);
    store(words.entered, cycle_count());
    store(words.done, std::uint64_t{0});
    const TailWords tail = pack(call, CallState::Entered);
    store(words.tail[0], tail.word[0]);
    store(words.tail[1], tail.word[1]);
    store(words.tail[2], tail.word[2]);
  }
  store(ring.last, number);
  return number | key_bit;
}

void FlightRecorder::message(std::uint64_t key, const MessageRecord& message) noexcept {
  if (memory_ == nullptr) return;
  MessageRing& ring = memory_->messages;
  const std::uint64_t place = ring.last + 1;
  MessageWords& words = ring.messages[place % kRecordedMessages];
  {
    const Change change(words.version);
    store(words.peer, std::int32_t{message.peer});
    store(words.place, place);
    store(words.exchange, number_of(key));
    store(words.number, message.number);
    store(words.count, message.count);
    store(words.kind, static_cast<std::uint64_t>(message.dtype) | (message.sent ? kMessageSent : 0));
  }
  store(ring.last, place);
}

void FlightRecorder::running(std::uint64_t key, ShortName algorithm) noexcept {
  RecordWords* const words = record_of(memory_, key);
  if (words == nullptr) return;
  const Change change(words->version);
  change_state(*words, CallState::Running);
  if (!algorithm.view().empty()) change_algorithm(*words, algorithm);
}

void FlightRecorder::done(std::uint64_t key) noexcept { finish(key, CallState::Done, cycle_count()); }

void FlightRecorder::done_at_once(std::uint64_t key) noexcept { finish(key, CallState::Done, 0); }

void FlightRecorder::failed(std::uint64_t key) noexcept { finish(key, CallState::Failed, cycle_count()); }

// No call ends before it begins, whatever `ticks` are.
void FlightRecorder::finish(std::uint64_t key, CallState state, std::uint64_t ticks) noexcept {
  RecordWords* const words = record_of(memory_, key);
  if (words == nullptr) return;
  const Change change(words->version);
  store(words->done, std::max(ticks, words->entered));
  change_state(*words, state);
}

std::optional<CallRecord> FlightRecorder::find(std::uint64_t key) const noexcept {
  const std::uint64_t number = number_of(key);
  if (memory_ == nullptr || number == 0) return std::nullopt;
  std::optional<CallRecord> call =
      read_record(ring_of(*memory_, key), number % kRecordedCalls, scale_of(memory_->header));
  return call && call->number == number ? call : std::nullopt;
}

CallRecord FlightRecorder::last_of(std::uint64_t key_bit) const noexcept {
  if (memory_ == nullptr) return {};
  std::uint64_t& last = ring_of(*memory_, key_bit).last;
  const std::uint64_t number = std::atomic_ref<std::uint64_t>(last).load(std::memory_order_acquire);
  return find(number | key_bit).value_or(CallRecord{});
}

CallRecord FlightRecorder::last_of_any() const noexcept {
  const CallRecord call = last_of(0);
  const CallRecord exchange = last_of(kExchangeKey);
  return exchange.number != 0 && exchange.entered_ns >= call.entered_ns ? exchange : call;
}

Recording FlightRecorder::snapshot() const {
  if (memory_ == nullptr) return {};
  Result<Recording> recording = view(*memory_, fmt::format("pid {}", getpid()));
  return recording ? std::move(*recording) : Recording{};
}

namespace {

// Ends a call that was unfinished at a failure. The ring itself learns of that from the code that drives the call.
void end_unfinished(CallRecord& call, std::int64_t now_ns) {
  if (call.state == CallState::Done || call.state == CallState::Failed) return;
  call.state = CallState::Failed;
  call.done_ns = now_ns;
}

}  // namespace

Result<std::string> FlightRecorder::dump(const Error& error, const std::string& directory) const {
  if (memory_ == nullptr) return Error{ErrorCode::InvalidUsage, "flight recorder: nothing is recorded"};
  try {
    Recording recording = snapshot();
    recording.error = error.message;
    recording.error_kind = name(error.code);
    recording.failed_rank = error.failed_rank;
    for (std::vector<CallRecord>* calls : {&recording.calls, &recording.exchanges}) {
      for (CallRecord& call : *calls) end_unfinished(call, recording.taken_ns);
    }
    return write_recording(recording, directory.empty() ? setting_text(Setting::RecorderDir) : directory);
  } catch (const std::bad_alloc&) {
    // Memory that is short may be the very error.
    return Error{ErrorCode::System, "flight recorder: no memory to write the recording"};
  }
}

}  // namespace wreath
