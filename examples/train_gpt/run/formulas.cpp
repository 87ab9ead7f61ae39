// This file has closed forms of a step's payload.
#include "examples/train_gpt/run/formulas.hpp"

#include <algorithm>
#include <vector>

namespace wreath::gpt {

namespace {

constexpr std::uint64_t kFloatBytes = 4;

// Returns the elements of the `index`-th of `parts` near-equal parts, the first ones larger.
std::uint64_t near_equal(std::uint64_t count, std::uint64_t parts, std::uint64_t index) {
  return count / parts + (index < count % parts ? 1 : 0);
}

std::uint64_t padded(std::uint64_t count, std::uint64_t parts) { return (count + parts - 1) / parts * parts; }

// A weight of this rank: its elements, the unit that uses it, and the other ranks that sum its gradient.
struct Weight {
  std::uint64_t count = 0;
  int unit = 0;
  // Its gradient covers the rows that a tensor rank holds, which with sequence parallelism are a part.
  bool of_rows = false;
  bool table = false;  // the tied one
};

class Formulas {
 public:
  Formulas(const TrainOptions& options, const training::MeshPlace& place) : options_(options), place_(place) {
    const auto heads = static_cast<std::uint64_t>(model().heads);
    heads_ = near_equal(heads, tensor(), static_cast<std::uint64_t>(place.tp));
    head_width_ = heads_ * static_cast<std::uint64_t>(model().head_size());
    for (int chunk = 0; chunk < options_.chunks; ++chunk) add_stage(chunk * options_.mesh.pp + place_.pp);
  }

  StepPayload all() {
    replicas();
    tensor_ranks();
    pipeline();
    context();
    whole_model();
    return std::move(payload_);
  }

 private:
  const GptConfig& model() const { return options_.model; }
  std::uint64_t width() const { return static_cast<std::uint64_t>(model().width); }
  std::uint64_t tensor() const { return static_cast<std::uint64_t>(options_.mesh.tp); }
  std::uint64_t contexts() const { return static_cast<std::uint64_t>(options_.mesh.cp); }
  std::uint64_t copies() const { return static_cast<std::uint64_t>(options_.mesh.dp) * contexts(); }
  std::uint64_t passes() const { return static_cast<std::uint64_t>(options_.micro_batches); }
  std::uint64_t sequences() const { return static_cast<std::uint64_t>(options_.sequences()); }
  std::uint64_t stages() const {
    return static_cast<std::uint64_t>(options_.mesh.pp) * static_cast<std::uint64_t>(options_.chunks);
  }
  // Returns the bytes of a gradient or a weight that is sent between replicas.
  std::uint64_t moved() const { return options_.precision == "float32" ? kFloatBytes : 2; }
  bool sums_rows() const { return options_.sequence_parallel && tensor() > 1; }
  bool sums_table() const { return options_.mesh.pp > 1; }

  void add(const char* group, const char* operation, std::uint64_t least, std::uint64_t most) {
    if (most == 0) return;
    PayloadBounds& bounds = payload_[{group, operation}];
    bounds.least += least;
    bounds.most += most;
  }
  void add(const char* group, const char* operation, std::uint64_t bytes) { add(group, operation, bytes, bytes); }

  // ---- sizes ----

  // Adds the weights of a stage in the order of the forward pass.
  void add_stage(int stage) {
    const auto index = static_cast<std::uint64_t>(stage);
    const auto vocabulary = static_cast<std::uint64_t>(model().vocabulary);
    const Weight table{(vocabulary + tensor() - 1) / tensor() * width(), units_, false, true};
    const bool first = index == 0;
    const bool last = index == stages() - 1;
    if (first) {
      weights_.push_back(table);
      weights_.push_back({static_cast<std::uint64_t>(model().context) * width(), units_++, true, false});
    }
    const std::uint64_t layers = near_equal(static_cast<std::uint64_t>(model().layers), stages(), index);
    layers_ += layers;
    for (std::uint64_t i = 0; i < layers; ++i) add_block(units_++);
    if (last) {
      add_norm(units_);
      if (sums_table()) weights_.push_back({table.count, units_, false, true});
      ++units_;
    }
    has_first_ = has_first_ || first;
    has_last_ = has_last_ || last;
  }
  void add_norm(int unit) {
    weights_.push_back({width(), unit, true, false});
    if (model().bias) weights_.push_back({width(), unit, true, false});
  }
  void add_linear(int unit, std::uint64_t inputs, std::uint64_t outputs, bool by_inputs) {
    weights_.push_back({inputs * outputs, unit, false, false});
    if (model().bias) weights_.push_back({outputs, unit, by_inputs, false});
  }
  void add_block(int unit) {
    const std::uint64_t hidden = near_equal(4 * width(), tensor(), static_cast<std::uint64_t>(place_.tp));
    add_norm(unit);
    add_linear(unit, width(), 3 * head_width_, false);
    add_linear(unit, head_width_, width(), true);
    add_norm(unit);
    add_linear(unit, width(), hidden, false);
    add_linear(unit, hidden, width(), true);
  }

  // Returns the places of a sequence that a context rank holds: two of 2 c near-equal chunks.
  std::uint64_t places_of(std::uint64_t rank) const {
    const auto all = static_cast<std::uint64_t>(model().context);
    if (contexts() == 1) return all;
    return near_equal(all, 2 * contexts(), rank) + near_equal(all, 2 * contexts(), 2 * contexts() - 1 - rank);
  }
  // Returns the rows of a micro-batch.
  std::uint64_t rows() const { return sequences() * places_of(static_cast<std::uint64_t>(place_.cp)); }
  std::uint64_t row_bytes() const { return rows() * width() * kFloatBytes; }

  bool waits(const Weight& weight) const { return (weight.of_rows && sums_rows()) || (weight.table && sums_table()); }
  // Returns the elements of all weights that `wanted` takes, with a bucket for each unit.
  template <typename Wanted>
  std::uint64_t by_unit(const Wanted& wanted) const {
    std::uint64_t sum = 0;
    for (int unit = 0; unit < units_; ++unit) {
      std::uint64_t count = 0;
      for (const Weight& weight : weights_) count += weight.unit == unit && wanted(weight) ? weight.count : 0;
      sum += padded(count, copies());
    }
    return sum;
  }
  // Returns the elements of buckets of limited size, in reverse order, where the first one is smaller.
  std::uint64_t by_bytes() const {
    const std::uint64_t first = options_.bucket_bytes > 0 ? options_.bucket_bytes : std::uint64_t{1} << 20;
    const std::uint64_t others = options_.bucket_bytes > 0 ? options_.bucket_bytes : std::uint64_t{25} << 20;
    std::uint64_t sum = 0;
    std::uint64_t count = 0;
    for (auto weight = weights_.rbegin(); weight != weights_.rend(); ++weight) {
      if (waits(*weight)) continue;
      if (count > 0 && (count + weight->count) * kFloatBytes > (sum == 0 ? first : others)) {
        sum += padded(count, parts());
        count = 0;
      }
      count += weight->count;
    }
    return sum + padded(count, parts());
  }
  std::uint64_t parts() const { return options_.zero_stage == 0 ? 1 : copies(); }
  bool divides_by_unit() const { return options_.zero_stage >= 2; }
  // Returns the elements of the gradients of rows, or of the tied table.
  template <typename Wanted>
  std::uint64_t late(const Wanted& wanted) const {
    if (divides_by_unit()) return by_unit(wanted);
    std::uint64_t count = 0;
    for (const Weight& weight : weights_) count += wanted(weight) ? weight.count : 0;
    return padded(count, parts());
  }
  std::uint64_t of_rows() const {
    return sums_rows() ? late([](const Weight& weight) { return weight.of_rows; }) : 0;
  }
  std::uint64_t of_table() const {
    return sums_table() ? late([](const Weight& weight) { return weight.table; }) : 0;
  }
  std::uint64_t early() const {
    return divides_by_unit() ? by_unit([this](const Weight& weight) { return !waits(weight); }) : by_bytes();
  }

  // ---- strategies ----

  void replicas() {
    add("tp", "all_reduce", of_rows() * kFloatBytes);
    add("embedding", "all_reduce", of_table() * kFloatBytes);
    if (copies() == 1) return;
    const std::uint64_t once = (early() + of_rows() + of_table()) * moved();
    const std::uint64_t each_pass = (passes() * early() + of_rows() + of_table()) * moved();
    switch (options_.zero_stage) {
      case 0: return add("dp_cp", "all_reduce", once);
      case 1: add("dp_cp", "reduce_scatter", once); return add("dp_cp", "all_gather", once);
      case 2: add("dp_cp", "reduce_scatter", each_pass); return add("dp_cp", "all_gather", once);
      default: return fully_sharded(once, each_pass);
    }
  }

  void fully_sharded(std::uint64_t once, std::uint64_t each_pass) {
    const auto shards = options_.hybrid_shards > 0 ? static_cast<std::uint64_t>(options_.hybrid_shards) : copies();
    const bool hybrid = options_.hybrid_shards > 0;
    const char* group = hybrid ? "shards" : "dp_cp";
    if (hybrid && shards < copies()) {
      add("replicate", "reduce_scatter", each_pass / shards);
      add("replicate", "all_gather", once / shards);
    }
    if (shards == 1) return;
    add(group, "reduce_scatter", each_pass);
    const bool in_turns = passes() == 1 || options_.schedule == "1f1b";
    if (sums_table() || options_.chunks > 1 || !in_turns) {
      const std::uint64_t again = options_.chunks > 1 ? 3 : 2;  // a prefetched unit may go unused
      return add(group, "all_gather", once,
                 again * passes() * once + (has_first_ && has_last_ ? passes() * unit(0) : 0));
    }
    add(group, "all_gather", passes() * (2 * once - unit(units_ - 1) + unit(0)));
  }
  // Returns the bytes of a unit's buckets.
  std::uint64_t unit(int index) const {
    const auto bytes = [&](bool waiting) {
      std::uint64_t count = 0;
      for (const Weight& weight : weights_) {
        count += weight.unit == index && waits(weight) == waiting ? weight.count : 0;
      }
      return padded(count, copies()) * moved();
    };
    return bytes(false) + bytes(true);
  }

  void tensor_ranks() {
    if (tensor() == 1) return;
    const std::uint64_t first = has_first_ ? 1 : 0;
    const std::uint64_t last = has_last_ ? 1 : 0;
    const std::uint64_t forwards = options_.recompute ? 2 : 1;
    const std::uint64_t sums = first + last + 2 * layers_ * (forwards + 1);  // one a half block and direction
    if (last == 1) add("tp", "all_reduce", passes() * 3 * rows() * kFloatBytes);
    // Scales take two values for each of a block's four linear layers, in forward, backward and for the weights.
    if (options_.precision == "fp8") add("tp", "all_reduce", passes() * layers_ * 4 * (forwards + 2) * 2 * kFloatBytes);
    if (!options_.sequence_parallel) return add("tp", "all_reduce", passes() * sums * row_bytes());
    const bool equal = rows() % tensor() == 0;
    // The last term is for the weights.
    const std::uint64_t gathers = first + 2 * last + 2 * layers_ * (forwards + 1) + 4 * layers_;
    add("tp", equal ? "reduce_scatter" : "reduce_scatter_v", passes() * sums * row_bytes());
    add("tp", equal ? "all_gather" : "all_gather_v", passes() * gathers * row_bytes());
  }

  void pipeline() {
    if (options_.mesh.pp == 1) return;
    const std::uint64_t held =
        options_.sequence_parallel ? near_equal(rows(), tensor(), static_cast<std::uint64_t>(place_.tp)) : rows();
    for (int chunk = 0; chunk < options_.chunks; ++chunk) {
      const auto stage = static_cast<std::uint64_t>(chunk * options_.mesh.pp + place_.pp);
      const std::uint64_t boundaries = (stage > 0 ? 1U : 0U) + (stage + 1 < stages() ? 1U : 0U);
      add("pp", "send", passes() * boundaries * held * width() * kFloatBytes);
      add("pp", "recv", passes() * boundaries * held * width() * kFloatBytes);
    }
  }

  void context() {
    if (contexts() == 1) return;
    const std::uint64_t forwards = options_.recompute ? 2 : 1;
    if (options_.context_attention == "ring") return ring(forwards);
    const std::uint64_t heads = near_equal(heads_, contexts(), static_cast<std::uint64_t>(place_.cp));
    const auto size = static_cast<std::uint64_t>(model().head_size());
    const std::uint64_t whole = sequences() * static_cast<std::uint64_t>(model().context) * heads;
    const std::uint64_t own = rows() * heads_;
    const std::uint64_t forward = own * 3 * size + whole * (size + 1);
    const std::uint64_t backward = own * (4 * size + 2) + whole * 3 * size;
    add("cp", "all_to_all_v", passes() * layers_ * (forwards * forward + backward) * kFloatBytes);
  }
  // Counts the ring. A rank sends all blocks except that of the next rank, which has it already. It receives all blocks
  // except its own.
  void ring(std::uint64_t forwards) {
    const auto own = static_cast<std::uint64_t>(place_.cp);
    const auto all = static_cast<std::uint64_t>(model().context);
    const std::uint64_t times = passes() * layers_ * sequences() * 2 * head_width_ * kFloatBytes;
    add("cp", "send", times * ((forwards + 1) * (all - places_of((own + 1) % contexts())) + all));
    add("cp", "recv", times * ((forwards + 1) * (all - places_of(own)) + all));
  }

  // Counts the norm, the loss, and whether a rank wants the end.
  void whole_model() {
    if (options_.mesh.ranks() == 1) return;
    const bool divided = options_.zero_stage > 0 && copies() > 1;
    const bool several = divided || options_.mesh.ranks() > options_.mesh.dp;
    if (several) add(divided ? "world" : "model", "all_reduce", 4 + 16);
    // With float16 four more bytes tell whether a gradient overflowed.
    add("world", "all_reduce", options_.precision == "float16" ? 16 + 4 : 16);
  }

  const TrainOptions& options_;
  training::MeshPlace place_;
  std::vector<Weight> weights_;
  int units_ = 0;
  std::uint64_t layers_ = 0;  // of this rank
  std::uint64_t heads_ = 0;
  std::uint64_t head_width_ = 0;
  bool has_first_ = false;
  bool has_last_ = false;
  StepPayload payload_;
};

}  // namespace

StepPayload step_payload(const TrainOptions& options, const training::MeshPlace& place) {
  return Formulas(options, place).all();
}

}  // namespace wreath::gpt
