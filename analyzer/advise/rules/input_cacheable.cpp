// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/pipeline_advice.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/storage.h"

namespace gpuwatch::advise {

extern const Rule kInputCacheable;

namespace {

constexpr double kSameBytes = 0.10;
constexpr double kSameTime = 0.70;
constexpr double kRoom = 0.80;
constexpr double kBusy = 0.85;

constexpr Threshold kThresholds[] = {
    kReadWait,
    kReadShare,
    kCopyShare,
    kInVainBytes,
    {"difference in bytes read between epochs", kSameBytes, "of the first epoch",
     "random crops and lengths differ by less, another subset of the data by more"},
    {"reading time of later epochs", kSameTime, "of the first epoch",
     "below it the page cache already serves the later epochs"},
    {"bytes an epoch", kRoom, "of the available memory", "the rest is for workers and batches"},
    {"CPU used by the job, for a tf.data pipeline", kBusy, "of its cores",
     "below it, stages that run in parallel are advised first (`dataloader-workers`)"},
    kLeastGain,
};

// Every epoch reads the same number of bytes, and later ones are not faster.
bool reads_the_same_again(const std::vector<InputFacts::Epoch>& epochs) {
  if (epochs.size() < 2 || epochs.front().bytes_read == 0) return false;
  const InputFacts::Epoch& first = epochs.front();
  return std::all_of(epochs.begin() + 1, epochs.end(), [&](const InputFacts::Epoch& epoch) {
    const double difference = std::abs(double(epoch.bytes_read) - double(first.bytes_read));
    return difference <= kSameBytes * double(first.bytes_read) && epoch.io_ns >= kSameTime * first.io_ns;
  });
}

// A tf.data pipeline of known stages without a cache, that every epoch runs again. Stages in parallel are the
// better advice where cores are idle and no Python generator feeds it.
bool is_uncached_pipeline(const RuleInput& input, const model::Loader& loader) {
  const std::vector<PipelineStage> stages = pipeline_stages(loader);
  const auto has = [&](std::string_view words) {
    return std::ranges::any_of(stages, [&](const PipelineStage& stage) { return stage.is(words); });
  };
  if (stages.size() < 2 || has("Cache")) return false;
  const auto index = uint32_t(&loader - input.process.loaders.data());
  const auto epochs = std::ranges::count_if(input.process.epochs, [&](const model::LoaderEpoch& epoch) {
    return epoch.loader == index && !epoch.batches.empty();
  });
  if (epochs < 2) return false;
  const auto use = machine_use(input);
  return has("from_generator") || (use && use->job_cores >= kBusy * input.process.cpu_count);
}

// What its stages take, and whether their output fits into memory, is not recorded.
std::optional<Finding> pipeline(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  const double lost = input.rank.steady_input_share();
  if (!loader || lost < kLeastReadWait || !is_uncached_pipeline(input, *loader)) return std::nullopt;
  Finding finding = make_finding(kInputCacheable, input, lost);
  finding.title = fmt::format("Uncached data: every epoch runs the pipeline of {} again, {}",
                              framework_name(loader->framework), data_stall_words(input));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"available", double(input.process.cpu_count), "CPU cores"}};
  finding.fix.change = NamedChange{"cache", ""};
  finding.fix.summary =
      "Add .cache() before shuffling and random transforms, if what the stages make until there fits in "
      "memory";
  finding.fix.snippet = "dataset = dataset.map(decode).cache().shuffle(1000).batch(32)";
  finding.fix.location = loader->location;
  finding.ceiling_speedup = ceiling_without_input(input, lost);
  return finding;
}

// Files that lie in the page cache are read in full for a part of them.
std::optional<Finding> copied_in_vain(const RuleInput& input) {
  const InputFacts& facts = *input.facts;
  const double lost = input.rank.share(attribute::Category::InputIo);
  const double ceiling = ceiling_without_input(input, lost);
  if (ceiling < kLeastSpeedup) return std::nullopt;
  Finding finding = make_finding(kInputCacheable, input, lost);
  finding.is_in_vain = true;
  finding.title = fmt::format("Read in full: {} are copied from the page cache for each batch of {}, {}",
                              size_words(facts.per_batch(double(facts.bytes_read))),
                              size_words(facts.per_batch(facts.tensor_bytes)), data_stall_words(input));
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"tensors of a batch", facts.per_batch(facts.tensor_bytes) / 1e6, "MB"});
  finding.fix.change = NamedChange{"cache", ""};
  finding.fix.summary =
      "Map the files into memory instead of reading them (of NumPy: np.load(..., mmap_mode=\"r\")), so that "
      "only what "
      "a "
      "sample uses is copied, or read each once and keep it";
  finding.fix.location = reading_location(input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader) {
    auto runs_again = pipeline(input);
    return runs_again ? runs_again : pipeline_finding(kInputCacheable, input, PipelineCause::kCache);
  }
  const Reading reading = reading_of(input);
  if (reading == Reading::kInVain) return copied_in_vain(input);
  if (reading == Reading::kNotLimiting) return std::nullopt;
  const InputFacts& facts = *input.facts;
  if (!reads_the_same_again(facts.epochs)) return std::nullopt;
  const double bytes = double(facts.epochs.front().bytes_read);
  // Each rank on this machine caches its own share.
  if (bytes * input.ranks_on_host > kRoom * double(facts.memory_available_bytes)) return std::nullopt;
  const double ceiling = ceiling_without_reading(input), lost = share_of_reading(input, ceiling);
  if (lost < 1 - 1 / kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kInputCacheable, input, lost);
  finding.title = fmt::format("Uncached data: every epoch reads the same {} again, {}", size_words(bytes),
                              data_stall_words(input));
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"bytes read", bytes / 1e6, "MB an epoch"});
  finding.evidence.push_back({"available memory", double(facts.memory_available_bytes) / 1e6, "MB"});
  finding.evidence.push_back({"complete epochs", double(facts.epochs.size()), "recorded"});
  finding.fix.change = NamedChange{"cache", size_words(bytes)};
  finding.fix.summary =
      fmt::format("Keep the {} of an epoch in memory ({} available), loaded once before the workers start",
                  size_words(bytes), size_words(double(facts.memory_available_bytes)));
  finding.fix.location = reading_location(input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kInputCacheable{
    "input-cacheable",
    "Every epoch reads, or makes, the same data again although they might fit in memory, or files that lie "
    "in "
    "memory are read in full for a part of them.",
    "Complete epochs that read the same number of bytes, the later ones no faster than the first, while "
    "enough memory for all of them is available. Where later epochs are faster, the page cache already holds "
    "the data. Also a tf.data pipeline of known stages without `cache()` that is run twice or more, if a "
    "Python "
    "generator feeds it or the job keeps its CPU cores busy, or if its stages work in parallel and ahead. Or "
    "most of a fetch copies files from the page cache, and the batch uses less than an eighth of the bytes.",
    "Load the data once and keep it: in the dataset before the workers start (forked workers share it), in "
    "/dev/shm, or memory-mapped.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
