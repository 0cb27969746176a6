// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/read_scaling.h"
#include "analyzer/advise/storage.h"
#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {

extern const Rule kInputStorage;

namespace {

constexpr Threshold kThresholds[] = {
    kReadWait,
    kReadShare,
    kCacheSpeed,
    {"storage that the prediction assumes", kFasterStorage, "times as fast",
     "a laptop's disk or a cloud volume reads 100 to 300 MB/s, one NVMe disk 2000 to 7000 MB/s"},
    kLeastGain,
};

// Read throughput at which training would not wait.
double needed_bytes_s(const RuleInput& input) {
  const double step_s = input.input_floor_ms() / 1e3;
  const double a_step =
      input.facts->per_batch(double(input.facts->bytes_read)) * input.loader->batches_per_step;
  return step_s > 0 ? a_step / step_s : 0;
}

// More workers read beside each other. What they can hide, if storage serves them all as fast, needs no
// faster storage; whether it does may be open.
predict::Estimate with_more_workers_ms(const RuleInput& input) {
  predict::LoaderSetting setting = input.loader_setting();
  setting.workers = std::max(setting.workers, best_workers(input, *input.loader, setting));
  if (const auto reads = Reads(input, *input.loader).outlook(setting)) return reads->step_ms;
  const double ms = expected_step_ms(input, *input.loader, setting);
  return {ms, ms, ms};
}

void name_fix(Finding& finding, const RuleInput& input) {
  finding.fix.change = StorageChange{};
  const double needed = needed_bytes_s(input);
  if (needed > 0) {
    finding.fix.change = StorageChange{fmt::format("{:.3g} MB/s", needed / 1e6)};
    finding.fix.summary = fmt::format(
        "Move the data to faster storage (local NVMe): training needs {:.3g} MB/s, a worker reads {:.3g} "
        "MB/s",
        needed / 1e6, input.facts->bytes_s() / 1e6);
  } else {
    finding.fix.summary = "Move the data to faster storage (local NVMe), or read it ahead";
  }
  finding.fix.location = reading_location(input);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (reading_of(input) != Reading::kSlow) return std::nullopt;
  predict::LoaderSetting setting = input.loader_setting();
  if (setting.io_factor < 1) return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.io_factor = 1 / kFasterStorage;
  const double after = expected_step_ms(input, *input.loader, setting);
  const predict::Estimate with_workers = with_more_workers_ms(input);
  if (std::min(now, with_workers.high) < after * kLeastSpeedup) return std::nullopt;
  const bool may_workers_hide_it = with_workers.low < after * kLeastSpeedup;

  Finding finding = make_finding(kInputStorage, input, 1 - after / now);
  finding.title = fmt::format("Slow storage: reading is {:.0f}% of making a batch, {}",
                              100 * input.facts->io_share(), data_stall_words(input));
  finding.evidence = reading_evidence(input);
  name_fix(finding, input);
  if (may_workers_hide_it)
    finding.fix.summary = "If more workers gain little: m" + finding.fix.summary.substr(1);
  else
    finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (!finding.prediction) finding.ceiling_speedup = ceiling_without_reading(input);
  return finding;
}

}  // namespace

const Rule kInputStorage{
    "input-storage",
    "Local storage delivers data more slowly than training consumes it.",
    "Fetches spend their time in reads that are slower than the page cache, on a local "
    "file system and not in opening many small files. The simulated replay with storage "
    "ten times as fast beats any number of workers that the machine carries. Where it is open whether "
    "storage serves more readers as fast, `dataloader-workers` is to be tried first.",
    "Move the data to faster storage (the finding compares the read throughput that "
    "training needs with the measured one), read fewer bytes a sample, or read ahead.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
