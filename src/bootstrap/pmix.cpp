// Carries rank 0's text by PMIx: see pmix.hpp.
#include "src/bootstrap/pmix.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "src/base/shared_library.hpp"
#include "src/base/signals.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr const char* kPmixFile = "libpmix.so.2";
constexpr const char* kPmixKey = "wreath-place";
constexpr int kPmixLookMs = 20;

// Is the client library, loaded.
class PmixLibrary : public PmixFunctions {
 public:
  static Result<std::unique_ptr<PmixLibrary>> load() {
    auto library = SharedLibrary::open(kPmixFile);
    if (!library) {
      return Error{ErrorCode::Unavailable, library.error().message +
                                               ": the launcher serves PMIx, but its client library cannot be loaded; "
                                               "install libpmix2, or add its folder to LD_LIBRARY_PATH; srun "
                                               "--mpi=pmi2 needs no library"};
    }
    std::unique_ptr<PmixLibrary> made(new PmixLibrary(*std::move(library)));
    std::string missing;
    made->library_.look_up("PMIx_Init", made->initialise, missing);
    made->library_.look_up("PMIx_Finalize", made->finalise, missing);
    made->library_.look_up("PMIx_Put", made->put, missing);
    made->library_.look_up("PMIx_Commit", made->commit, missing);
    made->library_.look_up("PMIx_Fence", made->fence, missing);
    made->library_.look_up("PMIx_Get", made->get, missing);
    made->library_.look_up("PMIx_Error_string", made->explain, missing);
    if (missing.empty()) return made;
    return Error{ErrorCode::Unavailable, fmt::format("{} has no {}; install another PMIx", kPmixFile, missing)};
  }

 private:
  explicit PmixLibrary(SharedLibrary library) : library_(std::move(library)) {}

  SharedLibrary library_;
};

// Is between PMIx_Init and PMIx_Finalize while it lives.
class PmixVisit {
 public:
  PmixVisit(const PmixFunctions& pmix, const Carriage& carriage) : pmix_(pmix), carriage_(carriage) {}
  PmixVisit(const PmixVisit&) = delete;
  PmixVisit& operator=(const PmixVisit&) = delete;
  ~PmixVisit() {
    if (begun_) (void)pmix_.finalise(nullptr, 0);
  }

  Result<std::string> carry() {
    WREATH_TRY(check("PMIx_Init", pmix_.initialise(&self_, nullptr, 0)));
    begun_ = true;
    if (self_.rank != static_cast<std::uint32_t>(carriage_.rank)) {
      return Error{ErrorCode::StartupFailed, fmt::format("PMIx calls this process rank {}, and the variables rank {}",
                                                         self_.rank, carriage_.rank)};
    }
    if (carriage_.rank == 0) WREATH_TRY(put(carriage_.text));
    PmixInfo collect{};
    std::strcpy(collect.key, kPmixCollectData);
    collect.value.type = kPmixBool;
    collect.value.data.flag = true;
    // Without a list of processes it is a fence of the whole job.
    WREATH_TRY(check("PMIx_Fence", pmix_.fence(nullptr, 0, &collect, 1)));
    return carriage_.rank == 0 ? Result<std::string>(carriage_.text) : get();
  }

 private:
  Status check(const char* call, int status) const {
    if (status == kPmixSuccess) return {};
    const char* const why = pmix_.explain(status);
    return Error{ErrorCode::StartupFailed,
                 fmt::format("rank {}, at the launcher's PMIx: {}: {} ({}); has the launcher ended, or a rank?",
                             carriage_.rank, call, why == nullptr ? "no reason" : why, status)};
  }

  Status put(std::string text) const {
    PmixValue value{};
    value.type = kPmixString;
    value.data.string = text.data();
    WREATH_TRY(check("PMIx_Put", pmix_.put(kPmixGlobal, kPmixKey, &value)));
    return check("PMIx_Commit", pmix_.commit());
  }

  Result<std::string> get() const {
    PmixProcess first = self_;
    first.rank = 0;
    PmixValue* value = nullptr;
    WREATH_TRY(check("PMIx_Get", pmix_.get(&first, kPmixKey, nullptr, 0, &value)));
    if (value == nullptr) return Error{ErrorCode::StartupFailed, "PMIx_Get gave nothing"};
    const bool text = value->type == kPmixString && value->data.string != nullptr;
    std::string got(text ? value->data.string : "", text ? ::strnlen(value->data.string, kMaxCarriedBytes + 1) : 0);
    if (text) std::free(value->data.string);
    std::free(value);
    return got;
  }

  const PmixFunctions& pmix_;
  const Carriage& carriage_;
  PmixProcess self_{};
  bool begun_ = false;
};

// Is shared with the thread that waits for the server, which may outlive the call.
struct PmixErrand {
  explicit PmixErrand(const Carriage& given) : carriage(given) {}

  const Carriage carriage;
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Result<std::string>> outcome;

  void run(const PmixFunctions& pmix) {
    auto carried = carry_by_pmix(pmix, carriage);
    const std::lock_guard lock(mutex);
    outcome = std::move(carried);
    done.notify_all();
  }
};

}  // namespace

Result<std::string> carry_by_pmix(const PmixFunctions& pmix, const Carriage& carriage) {
  return PmixVisit(pmix, carriage).carry();
}

Result<std::string> carry_by_pmix(const Carriage& carriage) {
  const auto library = loaded_once<PmixLibrary>();
  if (!library) return library.error();
  const auto errand = std::make_shared<PmixErrand>(carriage);
  try {
    const BlockedSignals blocked;
    std::thread([errand, pmix = *library] {
      (void)::pthread_setname_np(::pthread_self(), "wreath-pmix");
      errand->run(*pmix);
    }).detach();
  } catch (const std::system_error& failure) {
    return os_error("start the thread that asks PMIx", failure.code().value());
  }
  std::unique_lock lock(errand->mutex);
  while (!errand->outcome) {
    errand->done.wait_for(lock, std::chrono::milliseconds(kPmixLookMs));
    if (errand->outcome) break;
    if (carriage.interrupt >= 0 && wait_for(carriage.interrupt, POLLIN, Deadline::after_ms(0)))
      return Error{ErrorCode::NotReady, "interrupted"};
    if (!carriage.deadline.passed()) continue;
    return Error{ErrorCode::Timeout, fmt::format("rank {}: PMIx's server did not bring all ranks together within the "
                                                 "start's time: ranks are missing, or the launcher is stopped",
                                                 carriage.rank)};
  }
  return *errand->outcome;
}

}  // namespace wreath
