// Lanes are launched here, and a lane's fault becomes an error.
#include "src/engine/lanes_run.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "src/base/invalid_argument.hpp"
#include "src/base/peer_memory.hpp"
#include "src/engine/call_shape.hpp"
#include "src/engine/engine.hpp"
#include "src/engine/output_rules.hpp"
#include "src/executor/handwritten/handwritten.hpp"

namespace wreath {
namespace {

constexpr int kStepsARound = 16;

// Returns the fault of memory that cannot be read. A peer that is gone explains itself. Where there is no memory, the
// rank that gave it to its call is wrong.
RunFault unreadable(const Engine& engine, Rank peer, int error) {
  if (error == kOwnTarget) return {{ErrorCode::InvalidArgument, std::string(kNoMemory), engine.rank()}, false};
  if (error == EFAULT) {
    return {{ErrorCode::InvalidArgument, fmt::format("{}: {}", engine.member(peer), kNoMemory), peer}};
  }
  return {{ErrorCode::System,
           fmt::format("the memory of {} cannot be read: {} (WREATH_SINGLE_COPY_BYTES=0 does without)",
                       engine.member(peer), std::system_category().message(error)),
           peer}};
}

}  // namespace

// Returns the loop that moves the messages, or None where the steps move them.
HandwrittenLoop LanesRun::loop() const {
  if (engine_.options().overrides.executor != kHandwrittenExecutor) return HandwrittenLoop::None;
  const bool exchanges = operation().exchanges();
  return handwritten_loop(operation().call.collective, exchanges ? "" : operation().choice.algorithm->name);
}

Result<Started> LanesRun::start() {
  auto made = launch();
  if (!made) return made.error();
  made->state.loop = loop();
  made->state.ranks = static_cast<std::uint32_t>(engine_.ranks());
  made->state.rank = static_cast<std::uint32_t>(engine_.rank());
  made->state.lands = made->state.loop == HandwrittenLoop::None && !reduces(operation().call.collective);
  made->state.single_copy_bytes = single_copy_bytes({operation().call.collective, made->bytes, made->sends_only});
  if (!operation().exchanges() && !resources_.plans->enter(*made->plan)) return Started::Later;
  const FlightRecorder& recorder = engine_.recorder();
  if (Trace* const trace = engine_.trace(); trace != nullptr) {
    trace->begin_call(recorder.find(operation().record).value_or(CallRecord{}), now_ns());
  }
  WREATH_TRY(begin(*made));
  WREATH_TRY(engine_.links().announce(engine_.members()));
  engine_.recorder().running(operation().record);
  return Started::Now;
}

Result<Launch> LanesRun::launch() { return operation().exchanges() ? launch_messages() : launch_call(); }

Result<Launch> LanesRun::launch_call() {
  const Call& call = operation().call;
  const Choice& choice = operation().choice;
  const auto found = resources_.plans->find(choice, call.root);
  if (!found) return found.error();
  Plan& plan = **found;
  const Cut cut{.parts = plan.lowered.parts,
                .data_lanes = plan.lowered.data_lanes,
                .tile_bytes = choice.tile_bytes,
                .partial_messages = (choice.algorithm->traits & kPartialMessages) != 0 ||
                                    call.reduction.op == ReduceOp::PremultipliedSum,
                .several_parts = (choice.algorithm->traits & kSeveralParts) != 0};
  Launch launch;
  launch.plan = &plan;
  launch.bytes = bytes_of(call, elements_of(call), engine_.ranks());
  if (reduces(call.collective)) launch.arithmetic = arithmetic(call.dtype, call.reduction, engine_.ranks());
  OperationState& state = launch.state;
  state.geometry = make_geometry(shape_of(call, engine_.ranks(), engine_.rank()), cut);
  state.buffers[static_cast<int>(Buffer::Input)] = const_cast<std::byte*>(call.input);
  state.buffers[static_cast<int>(Buffer::Output)] = call.output;
  state.signature = operation().signature;
  state.epoch = engine_.shape().epoch;
  measure_buffers(launch, cut.parts);
  if (state.geometry.tiles < kTooManyTiles) return launch;
  return Error{ErrorCode::InvalidArgument, fmt::format("tiles of {} bytes: {} needs more than {} of them for this call",
                                                       choice.tile_bytes, choice.algorithm->name, kTooManyTiles - 1)};
}

// Measures the call's buffers. Peers read large buffers in place, where they can map that memory.
void LanesRun::measure_buffers(Launch& launch, std::uint32_t parts) const {
  const Call& call = operation().call;
  OperationState& state = launch.state;
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    const std::size_t bytes = extent_of(call, state.geometry, buffer, parts, engine_.rank());
    launch.table_parts[static_cast<std::size_t>(buffer)] = parts;
    const std::byte* const data = state.buffers[static_cast<std::size_t>(buffer)];
    name_memory(launch, buffer, {data, data == nullptr ? 0 : bytes});
    const OutputUse output{bytes, reads_output(call)};
    if (buffer == Buffer::Output) state.streamed = streamed_of(output, resources_.streamed_bytes, engine_.tuning());
  }
  state.order = order_of(call.collective, state, engine_.tuning());
}

Result<Launch> LanesRun::launch_messages() {
  auto launch = resources_.exchange.launch(engine_, placed());
  if (!launch) return launch;
  // Sends that fit the slots are over before they are received.
  const std::span<const std::byte> sends = extent_of(operation().messages.sends);
  const std::size_t slots_bytes = engine_.shape().slot_count * engine_.tuning().largest_tile();
  if (sends.size() > slots_bytes) name_memory(*launch, Buffer::Input, sends);
  return launch;
}

void LanesRun::name_memory(Launch& launch, Buffer buffer, std::span<const std::byte> memory) const {
  const Links& links = engine_.links();
  if (memory.size() < resources_.read_in_place_bytes || links.mapped().empty()) return;
  if (const auto region = links.segment().name_memory(memory.data(), memory.size())) {
    launch.state.region[static_cast<std::size_t>(buffer)] = region->index;
    launch.state.region_offset[static_cast<std::size_t>(buffer)] = region->offset;
  }
}

std::size_t LanesRun::single_copy_bytes(SingleCopyCall call) const {
  return resources_.single_copy.message_bytes(call);
}

Status LanesRun::begin(Launch& launch) {
  HostProcessor processor{launch.arithmetic, copy_kernels()};
  processor.read_device = resources_.read_device;
  processor.by_hand = &advance_handwritten;
  resources_.lanes.start(*launch.plan, launch.state, processor, launch.resident);
  return {};
}

Advance LanesRun::advance() {
  const Advance advanced = resources_.lanes.run(kStepsARound);
  if (advanced != Advance::Blocked) engine_.links().ring();
  return advanced;
}

RunFault LanesRun::fault() const {
  const LaneState& lane = *resources_.lanes.failed_lane();
  const Rank peer = resources_.lanes.plan().lowered.sources[lane.fault_source].peer;
  switch (lane.fault) {
    case Fault::OwnerAborted: return {{ErrorCode::Aborted, fmt::format("by {}", engine_.member(peer)), peer}};
    case Fault::Region:
      return {{ErrorCode::System, fmt::format("{} names memory outside its regions", engine_.member(peer)), peer},
              false};
    case Fault::Unreadable: return unreadable(engine_, peer, lane.fault_errno);
    case Fault::Bytes: return {engine_.other_count(peer)};
    default: return {engine_.other_call(peer)};
  }
}

std::optional<Rank> LanesRun::waiting_for() const {
  const FifoEnd* const end = resources_.lanes.waiting_for();
  return end == nullptr ? std::nullopt : std::optional(end->peer);
}

std::vector<Question> LanesRun::questions() const {
  if (!operation().exchanges()) return questions_of_call(operation(), engine_.rank(), engine_.ranks());
  return resources_.exchange.questions(operation().messages, resources_.lanes);
}

}  // namespace wreath
