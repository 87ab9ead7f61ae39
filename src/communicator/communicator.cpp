// The public face: checks arguments, one call at a time, and hands over to the engine.
#include "wreath/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "src/base/log.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/options.hpp"

namespace wreath {

struct Communicator::Impl {
  explicit Impl(std::shared_ptr<Engine> made) : engine(std::move(made)), generation(fork_generation()) {}
  // In the child of a fork everything belongs to the parent: nothing is said or ended.
  ~Impl() {
    if (inherited()) {
      static_cast<void>(new std::shared_ptr<Engine>(std::move(engine)));  // NOLINT(bugprone-unhandled-exception-at-new)
    } else {
      engine->leave();
    }
  }
  bool inherited() const { return generation != fork_generation(); }
  // Makes `call` by body(engine), alone; or says what stands in the way.
  template <typename Body>
  std::invoke_result_t<Body, Engine&> make(const Call& call, Body body);

  std::shared_ptr<Engine> engine;
  std::uint32_t generation;
  std::atomic<bool> in_call{false};
};

namespace {

Error inherited() {
  return {ErrorCode::InvalidUsage, "this communicator belongs to the parent of a fork: the child makes its own", -1};
}

Error not_made() { return {ErrorCode::InvalidUsage, "this communicator was not created, or was moved from", -1}; }

// Holds the communicator for one call.
class CallGuard {
 public:
  explicit CallGuard(std::atomic<bool>& in_call)
      : in_call_(in_call), entered_(!in_call.exchange(true, std::memory_order_acquire)) {}
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;
  ~CallGuard() {
    if (entered_) in_call_.store(false, std::memory_order_release);
  }
  bool entered() const { return entered_; }

 private:
  std::atomic<bool>& in_call_;
  bool entered_;
};

Error complaint(const Engine& engine, ErrorCode code, std::string_view text) {
  return {code, fmt::format("{}: all_reduce: {}: {}", engine.identity(), name(code), text), engine.rank()};
}

Error invalid(std::string text) { return {ErrorCode::InvalidArgument, std::move(text), -1}; }

Status check_call(const Call& call) {
  if (static_cast<std::size_t>(call.dtype) >= all_dtypes().size()) {
    return invalid(fmt::format("dtype = {}", static_cast<int>(call.dtype)));
  }
  if (static_cast<std::size_t>(call.op) >= all_ops().size())
    return invalid(fmt::format("op = {}", static_cast<int>(call.op)));
  if (call.count == 0) return {};
  if (call.input == nullptr) return invalid(fmt::format("input = null with count = {}", call.count));
  if (call.output == nullptr) return invalid(fmt::format("output = null with count = {}", call.count));
  if (call.count > SIZE_MAX / 2 / size_of(call.dtype))
    return invalid(fmt::format("count = {} is more than memory holds", call.count));
  const auto input = reinterpret_cast<std::uintptr_t>(call.input);
  const auto output = reinterpret_cast<std::uintptr_t>(call.output);
  const std::uintptr_t distance = input > output ? input - output : output - input;
  if (distance != 0 && distance < call.bytes()) {
    return invalid(fmt::format("output overlaps input, {} bytes apart with {} bytes each; in place is input == output",
                               distance, call.bytes()));
  }
  return {};
}

// A caller's mistake ends the call here and is told to the other ranks, who would wait for it.
Error refuse(Engine& engine, const Error& error) {
  engine.fail(error.code, engine.rank(), fmt::format("{}: {}", engine.identity(), error.message));
  return complaint(engine, error.code, error.message);
}

Call all_reduce_call(const void* input, void* output, std::size_t count, DataType dtype, ReduceOp op) {
  const auto* in = static_cast<const std::byte*>(input);
  return {Collective::AllReduce, dtype, op, 0, in, static_cast<std::byte*>(output), count};
}

Result<CommunicatorOptions> agreed_options(const Membership& membership) { return decode_options(membership.settings); }

Result<std::shared_ptr<Engine>> make_engine(Membership membership) {
  const auto options = agreed_options(membership);
  if (!options) return options.error();
  return Engine::create(std::move(membership), *options);
}

BootstrapRequest request_of(int rank, int ranks, const CommunicatorOptions& options) {
  BootstrapRequest request{};
  request.rank = rank;
  request.ranks = ranks;
  request.settings = encode_options(options);
  request.timeout_ms = options.timeouts.bootstrap_ms;
  request.need_streams = options.transports.empty() || std::find(options.transports.begin(), options.transports.end(),
                                                                 "tcp") != options.transports.end();
  return request;
}

}  // namespace

Communicator::Communicator() = default;
Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Result<std::vector<Communicator>> Communicator::create_local(int ranks, const CommunicatorOptions& options) {
  if (ranks < 1) return Error{ErrorCode::InvalidArgument, fmt::format("create_local: ranks = {}", ranks), -1};
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  auto members = join_local(ranks, encode_options(*complete));
  if (!members) return members.error();
  std::vector<Result<std::shared_ptr<Engine>>> engines(static_cast<std::size_t>(ranks),
                                                       Error{ErrorCode::StartupFailed, "", -1});
  {
    std::vector<std::jthread> linking;  // ranks answer each other while they link
    for (std::size_t rank = 0; rank < engines.size(); ++rank) {
      linking.emplace_back([&, rank] { engines[rank] = make_engine(std::move((*members)[rank])); });
    }
  }
  std::vector<Communicator> communicators;
  for (const auto& engine : engines) {
    if (!engine) return engine.error();
    communicators.push_back(Communicator(std::make_unique<Impl>(*engine)));
  }
  return communicators;
}

Result<Communicator> Communicator::create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& options) {
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  auto membership = join(id, request_of(rank, ranks, *complete));
  if (!membership) return membership.error();
  auto engine = make_engine(std::move(*membership));
  if (!engine) return engine.error();
  return Communicator(std::make_unique<Impl>(*engine));
}

Result<Communicator> Communicator::create_from_environment(const CommunicatorOptions& options) {
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  const auto job = environment_job();
  if (!job) return job.error();
  log_info("rank {} of {} by {}", job->rank, job->ranks, job->source);
  auto membership = join_environment(*job, request_of(job->rank, job->ranks, *complete));
  if (!membership) return membership.error();
  auto engine = make_engine(std::move(*membership));
  if (!engine) return engine.error();
  return Communicator(std::make_unique<Impl>(*engine));
}

int Communicator::rank() const noexcept { return impl_ ? impl_->engine->rank() : -1; }
int Communicator::ranks() const noexcept { return impl_ ? impl_->engine->ranks() : 0; }

template <typename Body>
std::invoke_result_t<Body, Engine&> Communicator::Impl::make(const Call& call, Body body) {
  const CallGuard guard(in_call);
  if (inherited()) return wreath::inherited();
  if (!guard.entered()) {
    return complaint(*engine, ErrorCode::InvalidUsage, "another thread is in a call of this communicator");
  }
  if (const Status checked = check_call(call); !checked) return refuse(*engine, checked.error());
  return body(*engine);
}

Status Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType dtype, ReduceOp op) {
  if (!impl_) return not_made();
  const Call call = all_reduce_call(input, output, count, dtype, op);
  return impl_->make(call, [&](Engine& engine) { return engine.run(call); });
}

Result<Work> Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType dtype,
                                            ReduceOp op) {
  if (!impl_) return not_made();
  const Call call = all_reduce_call(input, output, count, dtype, op);
  return impl_->make(call, [&](Engine& engine) { return Result<Work>(Work(engine.start(call))); });
}

Status Communicator::check_sizes(std::size_t input, std::size_t output) {
  if (input == output) return {};
  return Error{ErrorCode::InvalidArgument, fmt::format("all_reduce: input has {} elements, output {}", input, output),
               -1};
}

Status Communicator::abort() {
  if (!impl_) return not_made();
  return impl_->inherited() ? inherited() : impl_->engine->abort();
}

Status Communicator::error() const {
  if (!impl_) return not_made();
  return impl_->inherited() ? inherited() : impl_->engine->error();
}

std::string Communicator::transport_to(int peer) const {
  if (!impl_ || peer < 0 || peer >= ranks()) return "none";
  return impl_->engine->transport_to(peer);
}

std::string Communicator::plan_for(Collective collective, std::size_t bytes) const {
  return impl_ ? describe(impl_->engine->choice_for(collective, bytes)) : std::string();
}

bool Work::done() const noexcept { return operation_ == nullptr || operation_->over(); }

Status Work::wait(std::int64_t timeout_ms) {
  if (operation_ == nullptr) return not_made();
  if (operation_->generation != fork_generation()) return inherited();
  return operation_->engine->wait(*operation_, timeout_ms);
}

}  // namespace wreath
