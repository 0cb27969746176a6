// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/read_scaling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "analyzer/advise/input_facts.h"

namespace gpuwatch::advise {
namespace {

using model::Batch;
using model::Ns;

constexpr double kWidestOpen = 0.30;        // of the step: wider says too little for a prediction
constexpr double kHardlyReads = 0.02;       // of the time to make a batch
constexpr size_t kLeastReads = 30;          // of which a slope is taken
constexpr double kStandardErrors = 2;       // on either side of a slope: 19 of 20 lie within
constexpr double kWidestSlope = 0.5;        // of the growth; wider says nothing
constexpr double kFartherThanSeen = 2;      // times as many readers as were seen: beyond, nothing is known
constexpr double kFaultsOfMappedFiles = 1;  // major faults a batch: it reads through its address space

struct Read {
  model::TimeSpan fetch;
  double io_ns = 0;
  double density() const { return io_ns / double(fetch.length()); }
};

double waiting_ns(const Batch& batch) {
  const double blocked = double(std::max(batch.fetch_io_ns, batch.fetch_blocked_ns));
  const double off_cpu = double(batch.fetch.length() - batch.fetch_cpu_ns - batch.fetch_run_delay_ns);
  return std::max(0.0, std::min(blocked, off_cpu));
}

// The latest: each setting of the loader that a rule asks about goes through them.
std::vector<Read> reads_of(const RuleInput& input, uint32_t loader) {
  constexpr size_t kMost = 20'000;
  std::vector<Read> reads;
  for (auto epoch = input.process.epochs.rbegin(); epoch != input.process.epochs.rend(); ++epoch) {
    if (epoch->loader != loader || epoch->workers.size() < 2) continue;
    for (auto batch = epoch->batches.rbegin(); batch != epoch->batches.rend() && reads.size() < kMost;
         ++batch)
      if (batch->fetch.length() > 0 && waiting_ns(*batch) > 0)
        reads.push_back({batch->fetch, waiting_ns(*batch)});
    if (reads.size() == kMost) break;
  }
  std::ranges::reverse(reads);
  return reads;
}

// Reads at once over time, integrated: of two moments, the difference is what happened between them.
class ReadersOverTime {
 public:
  explicit ReadersOverTime(const std::vector<Read>& reads) {
    std::vector<std::pair<Ns, double>> changes;
    for (const Read& read : reads) {
      changes.emplace_back(read.fetch.begin, read.density());
      changes.emplace_back(read.fetch.end, -read.density());
    }
    std::ranges::sort(changes);
    double readers = 0, sum = 0;
    Ns before = changes.empty() ? 0 : changes.front().first;
    for (const auto& [time, change] : changes) {
      sum += readers * double(time - before);
      before = time;
      times_.push_back(time);
      sums_.push_back(sum);
      readers += change;
    }
  }

  // `time` is the begin or end of one of the reads.
  double until(Ns time) const {
    return sums_[size_t(std::ranges::lower_bound(times_, time) - times_.begin())];
  }

 private:
  std::vector<Ns> times_;
  std::vector<double> sums_;
};

// Least squares of y over x.
struct Line {
  double slope = 0, error = 0;  // standard error of the slope
};
std::optional<Line> fit(const std::vector<double>& x, const std::vector<double>& y) {
  const double count = double(x.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0, rest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (count < 3 || xx <= 1e-9) return std::nullopt;
  const double slope = xy / xx;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - mean_y - slope * (x[i] - mean_x);
    rest += off * off;
  }
  return Line{slope, std::sqrt(rest / (count - 2) / xx)};
}

// How many others each read met, and whether it took longer for it.
void measure_growth(const std::vector<Read>& reads, ReadScaling& scaling) {
  if (reads.empty()) return;
  const ReadersOverTime over_time(reads);
  std::vector<double> readers, times;
  double met = 0, weight = 0;
  for (const Read& read : reads) {
    const double all = over_time.until(read.fetch.end) - over_time.until(read.fetch.begin);
    const double others = std::max(0.0, (all - read.io_ns) / double(read.fetch.length()));
    readers.push_back(std::log(1 + others));
    times.push_back(std::log(read.io_ns));
    met += (1 + others) * read.io_ns;
    weight += read.io_ns;
    scaling.most_readers = std::max(scaling.most_readers, 1 + others);
  }
  scaling.readers = met / weight;
  const auto line = reads.size() < kLeastReads ? std::nullopt : fit(readers, times);
  if (!line || 2 * kStandardErrors * line->error > kWidestSlope) return;
  scaling.is_measured = true;
  scaling.growth_low = std::clamp(line->slope - kStandardErrors * line->error, 0.0, 1.0);
  scaling.growth_high = std::clamp(line->slope + kStandardErrors * line->error, 0.0, 1.0);
}

// Waiting that no read explains: for sockets and locks (they are known), or for pages of mapped files.
double shared_part(const RuleInput& input, const predict::LoaderReplayInput& loader) {
  if (!input.facts || input.facts->batches == 0) return 0;
  double other = 0;
  for (const predict::ReplayEpoch& epoch : loader.epochs)
    for (const predict::BatchCost& batch : epoch.batches)
      other += std::max(0.0, batch.service_ns - batch.cpu_ns - batch.io_ns);
  if (other <= 0) return 0;
  const InputFacts& facts = *input.facts;
  if (facts.per_batch(facts.major_faults) >= kFaultsOfMappedFiles) return 1;
  return std::min(1.0, facts.shared_wait_ns / other);
}

predict::LoaderReplayInput with_shared_waits(const predict::LoaderReplayInput& loader, double part) {
  predict::LoaderReplayInput result = loader;
  for (predict::ReplayEpoch& epoch : result.epochs)
    for (predict::BatchCost& batch : epoch.batches)
      batch.io_ns += part * std::max(0.0, batch.service_ns - batch.cpu_ns - batch.io_ns);
  return result;
}

// A disk that was busy for a part of the time gives as much more as the rest of it, whoever reads.
double shortest_on_disk_ms(const RuleInput& input) {
  const InputFacts* facts = input.facts;
  const bool is_local = facts && facts->remote_ns + facts->receive_ns == 0 && facts->disk_bytes > 0;
  return is_local && facts->disk_busy_share > 0 ? input.rank.mean_step_ms() * facts->disk_busy_share : 0;
}

}  // namespace

bool ReadOutlook::is_open() const {
  return step_ms.high - step_ms.low > kWidestOpen * step_ms.expected;
}

Reads::Reads(const RuleInput& input, const predict::LoaderReplayInput& loader)
    : input_(input), loader_(loader), shared_(with_shared_waits(loader, shared_part(input, loader))) {
  const predict::BatchCost mean = predict::mean_batch(shared_);
  io_ns_ = mean.io_ns;
  rest_ns_ = std::max(0.0, mean.service_ns - mean.io_ns);
  if (const model::Loader* configured = input.configured_loader())
    measure_growth(reads_of(input, uint32_t(configured - input.process.loaders.data())), scaling_);
}

bool Reads::changes_readers(const predict::LoaderSetting& setting) const {
  return setting.workers >= 2 && setting.workers != loader_.setting.workers &&
         io_ns_ >= kHardlyReads * (io_ns_ + rest_ns_);
}

// How much longer a read takes among `readers` at once.
double Reads::slower(double readers, double growth) const {
  const double seen = std::max(scaling_.readers, kFartherThanSeen * scaling_.most_readers);
  const double beyond = scaling_.is_measured && growth > 0 ? std::max(1.0, readers / seen) : 1;
  const double within = beyond > 1 ? seen : readers;
  return std::pow(within / scaling_.readers, growth) * beyond;
}

// More readers are slower, and slower reads are more of them at once, up to one a worker.
double Reads::io_factor(const predict::LoaderSetting& setting, double growth) const {
  constexpr int kRounds = 50;
  const double per_step = loader_.batches_per_step, workers = setting.workers;
  const double floor_ns = std::max(predict::step_without_input_ms(loader_), input_.device_floor_ms()) * 1e6;
  double factor = 1;
  for (int round = 0; round < kRounds; ++round) {
    const double io_ns = io_ns_ * setting.io_factor * factor * per_step;
    const double step_ns = std::max({floor_ns, (io_ns + rest_ns_ * per_step) / workers, 1.0});
    factor = slower(std::clamp(io_ns / step_ns, 1.0, workers), growth);
  }
  return factor;
}

double Reads::step_at_growth(predict::LoaderSetting setting, double growth) const {
  if (growth > 0) setting.io_factor *= io_factor(setting, growth);
  return expected_step_ms(input_, shared_, setting);
}

std::optional<ReadOutlook> Reads::outlook(const predict::LoaderSetting& setting) const {
  if (!changes_readers(setting)) return std::nullopt;
  ReadOutlook outlook;
  outlook.is_measured = scaling_.is_measured;
  outlook.independent_ms = expected_step_ms(input_, loader_, setting);
  const double middle = scaling_.is_measured ? (scaling_.growth_low + scaling_.growth_high) / 2 : 0;
  predict::Estimate& range = outlook.step_ms;
  range = {step_at_growth(setting, scaling_.growth_low), step_at_growth(setting, middle),
           step_at_growth(setting, scaling_.growth_high)};
  const double on_disk = shortest_on_disk_ms(input_);
  if (on_disk > 0) range.high = std::min(range.high, std::max(range.expected, on_disk));
  return outlook;
}

double Reads::step_ms(const predict::LoaderSetting& setting) const {
  if (!scaling_.is_measured || !changes_readers(setting)) return expected_step_ms(input_, loader_, setting);
  return step_at_growth(setting, (scaling_.growth_low + scaling_.growth_high) / 2);
}

}  // namespace gpuwatch::advise
