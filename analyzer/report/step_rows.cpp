// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/step_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/advise/place_words.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"
#include "analyzer/report/facts.h"

namespace gpuwatch::report {
namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::RankAttribution;

constexpr double kLeastRow = 0.005;   // of the step; less is added to "other"
constexpr double kLeastCause = 0.01;  // of the step
constexpr size_t kMostCauses = 3;

std::string label_of(Bottleneck bottleneck, bool has_device) {
  if (bottleneck == Bottleneck::Compute && has_device) return "GPU compute";
  return std::string(attribute::words(bottleneck));
}

// Causes that a worker's work is behind.
bool is_workers_work(Category category) {
  return category == Category::InputTransform || category == Category::InputWait ||
         category == Category::InputIo || category == Category::InputCollate ||
         category == Category::InputCpuStarved || category == Category::InputHeadOfLine;
}

// " in augment (train.py:12)"
std::string place_words(const model::StackFrame& frame) {
  return " in " + advise::place_words(frame);
}

// Without workers no thread waits, and no stack is read: the method that makes a sample is all that is known.
std::string inline_place(const model::Process& process) {
  std::vector<model::Ns> waited(process.loaders.size());
  for (const model::LoaderEpoch& epoch : process.epochs)
    for (const model::Batch& batch : epoch.batches) waited.at(epoch.loader) += batch.next.length();
  const auto most = std::max_element(waited.begin(), waited.end());
  if (most == waited.end()) return "";
  const model::Loader& loader = process.loaders[size_t(most - waited.begin())];
  const auto code = loader.num_workers == 0 ? model::sample_code(loader) : std::nullopt;
  return code ? place_words(*code) : "";
}

// " in augment (data.py:41)": where the workers of the loader with most stack samples were seen most; "" if
// at no place for the larger part of the time.
std::string worker_place(const model::Run& run, const model::Process& process) {
  constexpr size_t kLeastSamples = 10;  // 5 of 10 at one place: it has more than a fifth (binomial, 95%)
  constexpr double kLeastShare = 0.5;
  const model::WorkerActivity most = model::main_worker_activity(run, process);
  if (most.stack_samples < kLeastSamples || most.functions.front().share < kLeastShare) return "";
  return place_words(most.functions.front().frame);
}

std::vector<Category> causes_of(const RankAttribution& rank, Bottleneck bottleneck) {
  std::vector<Category> causes;
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    if (attribute::info(category).bottleneck == bottleneck && rank.share(category) >= kLeastCause)
      causes.push_back(category);
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [&](Category a, Category b) { return rank.time(a) > rank.time(b); });
  causes.resize(std::min(causes.size(), kMostCauses));
  return causes;
}

// The row's label says all of these.
bool is_label_enough(Bottleneck bottleneck) {
  return bottleneck == Bottleneck::Machine || bottleneck == Bottleneck::Unobserved;
}

// " in compute_metrics (train.py:88)", of the time that the training thread works on its own.
std::string training_place(const Report& report, const RankAttribution& rank, Category category) {
  const model::Process& process = report.run.processes.at(rank.process);
  const auto seen = model::main_training_function(report.run, process, attribute::times_of(rank, category));
  return seen ? place_words(seen->frame) : "";
}

// "60% in main (train.py:11)", "25% in line 16": the lines of the function where a few of them have most of
// its time. A script without functions is one place, and its line alone says nothing of the others.
std::vector<std::string> places_in(const model::SeenFunction& seen, double least_share) {
  constexpr double kMostOfIt = 0.8;
  std::vector<std::string> places;
  double told = 0;
  for (const model::SeenLine& line : seen.lines) {
    if (line.share < least_share) break;
    told += line.share;
    places.push_back(places.empty() ? fmt::format("{:.0f}%{}", 100 * line.share, place_words(seen.frame))
                                    : fmt::format("{:.0f}% in line {}", 100 * line.share, line.line));
  }
  if (places.size() < 2 || told < kMostOfIt * seen.share)
    places = {fmt::format("{:.0f}%{}", 100 * seen.share, place_words(seen.frame))};
  return places;
}

// On a CPU job the model's work and the script's are one row: where it is, in the functions that show.
std::string compute_words(const Report& report, const RankAttribution& rank) {
  constexpr double kLeastShown = 0.1, kOnePlace = 0.9;  // of the row
  if (rank.device != model::kNone || rank.time(Category::DeviceUnobserved) > 0) return "";
  const model::Process& process = report.run.processes.at(rank.process);
  const std::vector<model::TimeSpan> times = attribute::times_of(rank, Category::Compute);
  std::vector<model::SeenFunction> functions = model::training_functions(report.run, process, times);
  if (!functions.empty() && functions.front().share >= kOnePlace) {
    // Where TensorFlow or JAX calls what is compiled ("quick_execute"), its line says less than the script's.
    std::vector<model::SeenFunction> innermost = model::innermost_functions(report.run, process, times);
    if (!innermost.empty() && !model::computes_model(innermost.front().frame))
      functions = std::move(innermost);
  }
  std::vector<std::string> places;
  for (const model::SeenFunction& seen : functions) {
    if (seen.share < kLeastShown) break;
    std::ranges::move(places_in(seen, kLeastShown), std::back_inserter(places));
  }
  places.resize(std::min(places.size(), kMostCauses));
  return fmt::format("{}", fmt::join(places, ", "));
}

std::string cause_words(const Report& report, const RankAttribution& rank, Bottleneck bottleneck) {
  if (bottleneck == Bottleneck::Compute) return compute_words(report, rank);
  if (is_label_enough(bottleneck)) return "";
  const model::Process& process = report.run.processes.at(rank.process);
  std::string words;
  bool has_place = false;
  for (Category cause : causes_of(rank, bottleneck)) {
    words += fmt::format("{}{} {} ms", words.empty() ? "" : ", ", attribute::info(cause).words,
                         three_digits(rank.share(cause) * rank.mean_step_ms()));
    if (cause == Category::HostCompute || cause == Category::HostWait || cause == Category::LaunchDispatch)
      words += training_place(report, rank, cause);
    if (has_place || !is_workers_work(cause)) continue;
    std::string place = worker_place(report.run, process);
    if (place.empty()) place = training_place(report, rank, cause);
    if (place.empty() && (cause == Category::InputTransform || cause == Category::InputWait))
      place = inline_place(process);
    words += place;
    has_place = !place.empty();
  }
  return words;
}

}  // namespace

std::vector<StepRow> step_rows(const Report& report, const RankAttribution& rank) {
  const bool has_device = rank.device != model::kNone || rank.time(Category::DeviceUnobserved) > 0;
  std::vector<StepRow> rows;
  StepRow other{.label = label_of(Bottleneck::Other, has_device)};
  for (Bottleneck bottleneck :
       {Bottleneck::Compute, Bottleneck::Input, Bottleneck::Copy, Bottleneck::Communication, Bottleneck::Host,
        Bottleneck::Machine, Bottleneck::Unobserved, Bottleneck::Other}) {
    const double share = rank.share(bottleneck);
    if (share < kLeastRow || bottleneck == Bottleneck::Other) {
      other.share += share;
      if (bottleneck == Bottleneck::Other) other.causes = cause_words(report, rank, bottleneck);
      continue;
    }
    rows.push_back({label_of(bottleneck, has_device), share * rank.mean_step_ms(), share,
                    cause_words(report, rank, bottleneck)});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const StepRow& a, const StepRow& b) { return a.share > b.share; });
  other.ms = other.share * rank.mean_step_ms();
  if (other.share >= kLeastRow) rows.push_back(other);
  return rows;
}

}  // namespace gpuwatch::report
