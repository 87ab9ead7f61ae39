// This file loads cuBLASLt, plans products and multiplies.
#include "training/compute/cublaslt.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "training/compute/kernels/kernels.hpp"

namespace wreath::training {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

struct Library {
  CublasFunctions functions{};
  // The reason that there is no library; empty means that it is there.
  std::string missing;
};

Library load() {
  Library library;
  void* handle = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr && library.missing.empty()) library.missing = dlerror();
  }
  if (handle == nullptr) return library;
  library.missing.clear();
  const auto find = [&](const char* name, auto& function) {
    void* const found = dlsym(handle, name);
    if (found == nullptr) library.missing = fmt::format("libcublasLt has no {}", name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  CublasFunctions& of = library.functions;
  find("cublasLtGetVersion", of.get_version);
  find("cublasLtGetStatusString", of.get_status_string);
  find("cublasLtCreate", of.create);
  find("cublasLtDestroy", of.destroy);
  find("cublasLtMatrixLayoutCreate", of.layout_create);
  find("cublasLtMatrixLayoutDestroy", of.layout_destroy);
  find("cublasLtMatmulDescCreate", of.desc_create);
  find("cublasLtMatmulDescDestroy", of.desc_destroy);
  find("cublasLtMatmulDescSetAttribute", of.desc_set);
  find("cublasLtMatmulPreferenceCreate", of.preference_create);
  find("cublasLtMatmulPreferenceDestroy", of.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", of.preference_set);
  find("cublasLtMatmulAlgoGetHeuristic", of.get_heuristic);
  find("cublasLtMatmul", of.matmul);
  return library;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

// Returns the view as a matrix that lies column by column, or nullopt where it does not lie so.
std::optional<ColumnMajorProduct::Factor> factor_of(const MatrixView& view) {
  if (view.column_stride == 1 && view.row_stride >= std::max<std::int64_t>(view.columns, 1)) {
    return ColumnMajorProduct::Factor{view.data, view.columns, view.rows, view.row_stride, false};
  }
  if (view.row_stride == 1 && view.column_stride >= std::max<std::int64_t>(view.rows, 1)) {
    return ColumnMajorProduct::Factor{view.data, view.rows, view.columns, view.column_stride, true};
  }
  return std::nullopt;
}

// Returns the highest power of two up to 256 that divides the address.
std::int64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address % 256 == 0 ? 256 : static_cast<std::int64_t>(address & (~address + 1));
}

int type_of(const std::optional<DataType>& half) {
  if (!half) return kCublasFloat32;
  return *half == DataType::BFloat16 ? kCublasBFloat16 : kCublasFloat16;
}

// Holds the 16-bit words of a factor in memory of the Compute while this object lives.
class HalfFactor {
 public:
  HalfFactor(Compute& on, const ColumnMajorProduct::Factor& factor, DataType format) : on_(on) {
    const auto count = static_cast<std::uint64_t>(factor.rows * factor.columns);
    data_ = static_cast<std::uint16_t*>(on.allocate(count * sizeof(std::uint16_t)));
    if (data_ == nullptr) throw Exception({ErrorCode::System, "no memory of the device for a factor of a product"});
    // The kernel only reads the factor.
    auto* const from = const_cast<float*>(on.at(factor.data));
    on.launch_elements(ConvertRun{from, on.at(data_), count, format, true}, count);
  }
  HalfFactor(const HalfFactor&) = delete;
  HalfFactor& operator=(const HalfFactor&) = delete;
  ~HalfFactor() { on_.free(data_); }
  const void* data() const { return data_; }

 private:
  Compute& on_;
  std::uint16_t* data_;
};

}  // namespace

std::optional<ColumnMajorProduct> column_major(const Product& product) {
  const auto a = factor_of(product.right);
  const auto b = factor_of(product.left);
  if (!a || !b || product.left.columns == 0) return std::nullopt;
  return ColumnMajorProduct{
      *a, *b, product.right.columns, product.left.rows, product.left.columns, product.result_stride};
}

struct Cublaslt::Plan {
  const CublasFunctions& library;
  CublasHandle desc = nullptr, a = nullptr, b = nullptr, d = nullptr;
  std::optional<CublasAlgorithm> algorithm;  // empty: the library has none
  explicit Plan(const CublasFunctions& of) : library(of) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (CublasHandle layout : {a, b, d}) {
      if (layout != nullptr) library.layout_destroy(layout);
    }
    if (desc != nullptr) library.desc_destroy(desc);
  }
};

Cublaslt::Cublaslt(Compute& on, const CublasFunctions& library) : on_(on), library_(library) {}

Result<std::unique_ptr<Cublaslt>> Cublaslt::create(Compute& on) {
  if (!library().missing.empty()) return Error{ErrorCode::Unavailable, library().missing};
  std::unique_ptr<Cublaslt> made(new Cublaslt(on, library().functions));
  WREATH_TRY(made->start());
  return made;
}

Status Cublaslt::start() {
  WREATH_TRY(add_cuda_work(on_.stream(), [this](void*) { return check(library_.create(&handle_), "cublasLtCreate"); }));
  const std::size_t version = library_.get_version();  // 130002: 13.0.2
  name_ = fmt::format("cuBLASLt {}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
  workspace_ = on_.allocate(kWorkspaceBytes);
  if (workspace_ == nullptr) return Error{ErrorCode::System, "no memory of the device for cuBLASLt's workspace"};
  return {};
}

Cublaslt::~Cublaslt() {
  plans_.clear();
  if (workspace_ != nullptr) on_.free(workspace_);
  if (handle_ == nullptr) return;
  static_cast<void>(on_.stream().synchronize());
  static_cast<void>(add_cuda_work(on_.stream(), [this](void*) { return check(library_.destroy(handle_), "destroy"); }));
}

Status Cublaslt::check(CublasStatus status, const char* call) const {
  if (status == kCublasSuccess) return {};
  return Error{ErrorCode::System,
               fmt::format("{}: {}: {} ({})", on_.device().name(), call, library_.get_status_string(status), status)};
}

Cublaslt::Plan& Cublaslt::plan_of(const ColumnMajorProduct& of, int type, bool accumulate,
                                  const std::array<std::int64_t, 3>& alignments) {
  const Key key{of.m,
                of.n,
                of.k,
                of.a.stride,
                of.b.stride,
                of.result_stride,
                of.a.transposed,
                of.b.transposed,
                alignments[0],
                alignments[1],
                alignments[2],
                type * 2 + (accumulate ? 1 : 0)};
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan) return *plan;
  auto made = std::make_unique<Plan>(library_);
  const auto must = [this](CublasStatus status, const char* call) { check(status, call).value(); };
  must(library_.desc_create(&made->desc, kCublasCompute32, kCublasFloat32), "cublasLtMatmulDescCreate");
  const std::int32_t transposed = kCublasTransposed;
  for (const auto& [factor, attribute] : {std::pair(&of.a, kCublasTransposeA), std::pair(&of.b, kCublasTransposeB)}) {
    if (!factor->transposed) continue;
    must(library_.desc_set(made->desc, attribute, &transposed, sizeof transposed), "cublasLtMatmulDescSetAttribute");
  }
  const auto layout = [&](CublasHandle* into, int of_type, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    must(library_.layout_create(into, of_type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                ld),
         "cublasLtMatrixLayoutCreate");
  };
  layout(&made->a, type, of.a.rows, of.a.columns, of.a.stride);
  layout(&made->b, type, of.b.rows, of.b.columns, of.b.stride);
  layout(&made->d, kCublasFloat32, of.m, of.n, of.result_stride);
  CublasHandle preference = nullptr;
  must(library_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int attribute, const void* value, std::size_t bytes) {
    must(library_.preference_set(preference, attribute, value, bytes), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(kCublasMostWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes);
  for (int i = 0; i < 4; ++i) {
    const auto alignment = static_cast<std::uint32_t>(alignments[static_cast<std::size_t>(std::min(i, 2))]);
    prefer(kCublasAlignmentA + i, &alignment, sizeof alignment);
  }
  CublasHeuristic heuristic{};
  int found = 0;
  const CublasStatus asked = library_.get_heuristic(handle_, made->desc, made->a, made->b, made->d, made->d, preference,
                                                    1, &heuristic, &found);
  library_.preference_destroy(preference);
  if (asked == kCublasSuccess && found > 0 && heuristic.state == kCublasSuccess) made->algorithm = heuristic.algorithm;
  plan = std::move(made);
  return *plan;
}

bool Cublaslt::multiply(const Product& product, const std::optional<DataType>& half) {
  std::optional<ColumnMajorProduct> of = column_major(product);
  if (!of) return false;
  const bool dense = of->a.stride == of->a.rows && of->b.stride == of->b.rows;
  if (half && !dense) return false;
  std::optional<HalfFactor> half_a, half_b;
  if (half) {
    half_a.emplace(on_, of->a, *half);
    half_b.emplace(on_, of->b, *half);
  }
  const void* const a = half ? half_a->data() : of->a.data;
  const void* const b = half ? half_b->data() : of->b.data;
  const bool accumulate = product.accumulate == Accumulate::Yes;
  bool taken = false;
  add_cuda_work(on_.stream(), [&](void* stream) -> Status {
    const Plan& plan =
        plan_of(*of, type_of(half), accumulate, {alignment_of(a), alignment_of(b), alignment_of(product.result)});
    taken = plan.algorithm.has_value();
    if (!taken) return {};
    const float one = 1;
    const float before = accumulate ? 1 : 0;
    return check(library_.matmul(handle_, plan.desc, &one, a, plan.a, b, plan.b, &before, product.result, plan.d,
                                 product.result, plan.d, &*plan.algorithm, workspace_, kWorkspaceBytes, stream),
                 "cublasLtMatmul");
  }).value();
  return taken;
}

}  // namespace wreath::training
