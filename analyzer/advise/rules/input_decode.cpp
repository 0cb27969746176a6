// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/collating.h"
#include "analyzer/advise/costly_function.h"
#include "analyzer/advise/costly_stage.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/own_data.h"
#include "analyzer/advise/pipeline_advice.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/advise/slow_sampler.h"
#include "analyzer/advise/storage.h"
#include "analyzer/advise/unseen_pipeline.h"
#include "analyzer/advise/whole_batches.h"
#include "analyzer/advise/worker_bound.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kInputDecode;

namespace {

constexpr double kLeastLeftWait = 0.10;
constexpr double kLeastCpuShare = 0.70;
constexpr double kLeastOfWait = 0.5;
constexpr double kMostOfStep = 0.5;
constexpr double kNextToNothing = 0.1;

constexpr Threshold kThresholds[] = {
    {"what transforms still cost with a worker on every core", kLeastLeftWait, "of the step",
     "below it more workers solve the problem"},
    {"the same, where more workers gain", kMostOfStep, "of the step",
     "below it they come first (`dataloader-workers`), and what they leave is looked at again"},
    {"CPU time of a fetch", kLeastCpuShare, "of its duration", "below it waiting for storage takes more"},
    {"transforms, and waiting for a CPU core to run them", kLeastOfWait, "of the data stall",
     "below it most of the stall has another cause (worker-to-trainer transfer, worker start-up), and only "
     "what a tenth of the transforms' time would save counts"},
    {"or, where the job fills its cores, CPU time of the workers", kLeastOfCpu, "of that of the job",
     "training waits little then, and computes more slowly on the cores that they leave"},
    {"the same, where training waits for a core and no other program takes as much", kLeastOfDelayed,
     "of that of the job",
     "threads of an operation wait for the one that lost its core: 0.5 of 1.9 cores doubled the step"},
    {"and waits for it", kLeastCoreWait, "of the step", "machines that are idle show 1 to 3%"},
    {"cores that are filled", kFullCores, "of those that the job may use",
     "some always wait for the slower of two processes"},
    {"bytes that are read for a batch, where most of them are for nothing: from", kReadForNothing,
     "times those of its tensors",
     "a photo of 12 megapixels for a crop of 224 pixels has three times as many, and text twice"},
    kDecoding,
    kOwnDataShare,
    {"or waiting for tf.data, Keras and the GIL, where they fill the cores or hold it",
     UnseenPipeline::kLeastWait, "of the step", "XProf's lower band"},
    {"or, where less than one core is free, work of the stages of tf.data", UnseenPipeline::kLeastWork,
     "of the CPU time that the job uses", "a run differs from the next one by almost as much"},
    {"and the job uses", UnseenPipeline::kBusyCores, "of its cores",
     "of two, less than one is free where one thread trains and a little work goes on: neither waits"},
};

bool is_most_of_the_stall(const attribute::RankAttribution& rank) {
  using attribute::Category;
  const double transforms = rank.share(Category::InputTransform) + rank.share(Category::InputCpuStarved);
  return transforms >= kLeastOfWait * rank.share(attribute::Group::Input);
}

// Of the step, what making samples takes from training where workers and training fill the cores. Where
// collate_fn takes most of a batch, what it takes is collate-cost's: padding lists was 92% of it, and
// "Make __getitem__ cheaper" came first.
double share_of_cores(const RuleInput& input, const MachineUse& use) {
  return worker_share_of_cores(input, use) * (1 - collating_mostly(input));
}

// The loader with the workers that are best for it, where those are more than it has and expected to gain.
std::optional<predict::LoaderSetting> faster_workers(const RuleInput& input) {
  const predict::LoaderSetting before = setting_before(input, *input.loader);
  predict::LoaderSetting more = before;
  more.workers = best_workers(input, *input.loader, before);
  const bool gains =
      more.workers > before.workers && expected_step_ms(input, *input.loader, before) >=
                                           kLeastSpeedup * expected_step_ms(input, *input.loader, more);
  return gains ? std::optional(more) : std::nullopt;
}

// Then they come first, and what they leave is this rule's, unless that is most of the step. Not where they
// may as well lose: nothing is said of those (ranking.cpp).
bool do_more_workers_help(const RuleInput& input) {
  const auto more = faster_workers(input);
  if (!more) return false;
  const auto prediction = loader_prediction(input, *input.loader, input.loader_check, *more);
  return !prediction || prediction->speedup.low >= 1;
}

std::optional<Finding> without_loader(const RuleInput& input) {
  auto finding = own_data_finding(kInputDecode, input, OwnDataCause::kComputes);
  if (!finding) return std::nullopt;
  finding->title = fmt::format("CPU transforms: {}, which makes the data", own_data_words(input));
  finding->fix.summary = fmt::format(
      "Compute what {}() makes once and keep it, in memory or in a file, make it cheaper, or make batches in "
      "other processes",
      io::printable(input.own_data->function.function));
  finding->fix.change = NamedChange{"transforms", ""};
  return finding;
}

std::string pipeline_title(const RuleInput& input, const UnseenPipeline& pipeline) {
  const std::string name = framework_name(input.configured_loader()->framework);
  if (pipeline.holds_gil())
    return fmt::format(
        "CPU transforms: Python code that makes the data of {} holds the GIL, which training waits for "
        "{:.0f}% of each step",
        name, 100 * pipeline.gil_share);
  if (pipeline.competes())
    return fmt::format(
        "CPU transforms: the stages of tf.data take {:.1f} of the {:.1f} CPU cores that the job uses, and "
        "training the rest",
        pipeline.work_cores(), pipeline.cores);
  return fmt::format("CPU transforms: {} and training fill the CPU cores, {}", name,
                     stall_words(input, pipeline.wait_share));
}

// The report cuts a text at two lines (io::kPrintableBytes).
std::string stage_fix(const CostlyStage& stage, double all_ns) {
  std::string words = fmt::format("Do less in {} ({:.3g} of {:.3g} ms of work for a batch)", stage.words,
                                  stage.busy_ns / 1e6, all_ns / 1e6);
  const char* between = ": ";
  if (stage.caching != Caching::kNever) {
    words += between;
    words += stage.caching == Caching::kAfterIt
                 ? ".cache() after it, if all epochs make the same"
                 : "shuffle after it, with .cache() between, if all epochs make the same";
    between = ", or ";
  }
  if (stage.is_map_of_samples) words += fmt::format("{}transform whole batches (batch before map)", between);
  return words;
}

// Where its stages were seen, the one that works longest.
void name_stage(Finding& finding, const RuleInput& input, const model::Loader& loader,
                const UnseenPipeline& pipeline) {
  constexpr double kWorthNaming = 0.05;  // of the step; "0.08 of 0.12 ms of work" in a step of 32 ms is none
  if (!pipeline.work || pipeline.work->busy_ns() < kWorthNaming * input.now_ms * 1e6) return;
  const CostlyStage stage = costly_stage(loader, *pipeline.work);
  const std::string place = short_location(stage.location);
  finding.evidence.push_back({"work of all stages", pipeline.work->busy_ns() / 1e6, "ms for a batch"});
  finding.evidence.push_back({fmt::format("of those, {}{}", stage.words, place.empty() ? "" : " at " + place),
                              stage.busy_ns / 1e6, "ms for a batch"});
  if (!stage.location.empty()) finding.fix.location = stage.location;
  if (!pipeline.runs_python) finding.fix.summary = stage_fix(stage, pipeline.work->busy_ns());
}

// tf.data and Keras: their threads work in the training process.
std::optional<Finding> in_pipeline(const RuleInput& input, const UnseenPipeline& pipeline) {
  const double taken = pipeline.competes() ? pipeline.work_cores() / pipeline.cores : 0;
  const double lost = std::max(pipeline.wait_share + pipeline.gil_share, taken);
  const bool is_on_cpu = input.rank.device == model::kNone && !input.device_hidden();
  if (!is_on_cpu || !pipeline.is_at_its_limit() || lost < UnseenPipeline::kLeastWait) return std::nullopt;
  const model::Loader& loader = *input.configured_loader();
  Finding finding = make_finding(kInputDecode, input, lost);
  finding.bottleneck = attribute::Bottleneck::Input;
  finding.explains = finding.explains | attribute::CategorySet{attribute::Category::Gil};
  finding.title = pipeline_title(input, pipeline);
  finding.evidence = {{"data stall", 100 * pipeline.wait_share, "% of the step"}};
  if (pipeline.holds_gil())
    finding.evidence.push_back({"training waits for the GIL", 100 * pipeline.gil_share, "% of the step"});
  if (pipeline.cores > 0) finding.evidence.push_back({"CPU used by this job", pipeline.cores, "cores"});
  finding.evidence.push_back({"CPU available to this job", double(input.process.cpu_count), "cores"});
  finding.fix.summary =
      "Do less work for each sample: on whole batches (batch before map, NumPy instead of Python loops), "
      "cheaper or precomputed transforms, or .cache() before shuffle if the data fits in memory";
  finding.fix.change = NamedChange{"transforms", ""};
  finding.fix.location = loader.location;
  name_stage(finding, input, loader, pipeline);
  if (const auto code = model::sample_code(loader)) finding.fix.location = code->location();
  const auto fitting = pipeline_fix(input, pipeline);
  if (fitting && fitting->cause == PipelineCause::kTransforms) finding.fix = fitting->fix;
  finding.ceiling_speedup = ceiling_without_pipeline(input, pipeline);
  return finding;
}

// A worker on every core, or as many as there are.
predict::LoaderSetting on_all_cores(const RuleInput& input) {
  predict::LoaderSetting setting = setting_before(input, *input.loader);
  setting.workers = std::max({setting.workers, int(cores_of_rank(input)), 1});
  return setting;
}

// Of the step, what goes if transforms cost next to nothing. A worker that makes batches without a pause is
// what training waits for, even if each wait ends with moving a batch: rows of Parquet as Python objects took
// it 16 of 20 ms, of the wait 14% were transforms and 33% that its other thread got the GIL to send the
// batch.
double share_that_goes(const RuleInput& input) {
  predict::LoaderSetting cheap = input.loader_setting();
  const double now_ms = expected_step_ms(input, *input.loader, cheap);
  cheap.cpu_factor *= kNextToNothing;
  const double step_ms = expected_step_ms(input, *input.loader, cheap);
  return now_ms > 0 ? std::max(0.0, 1 - step_ms / now_ms) * (1 - collating_mostly(input)) : 0;
}

// Of the step, what transforms cost training with a worker on every core.
double share_left(const RuleInput& input) {
  const predict::LoaderReplay all_cores = predict::replay(*input.loader, on_all_cores(input));
  const double step = std::max(all_cores.step_ms, input.device_floor_ms());
  // Not only what training waits for: on two cores it waited 5 of 63 ms beside two workers, and computed as
  // much more slowly as they took of the cores. Images kept in memory left 31 ms.
  // What the sampler takes of it is the sampler's (host-work).
  return step > 0 ? std::min(1 - input.input_floor_ms() / step, input.rank.share(attribute::Group::Input)) -
                        draw_share(input)
                  : 0;
}

// "with 2 loader workers" tells somebody who has none what is meant; where more are not expected to gain, it
// is the recorded job's share.
std::string title_of(const RuleInput& input, double left) {
  const int workers = on_all_cores(input).workers;
  const double cores = cores_of_rank(input);
  const bool has_more = setting_before(input, *input.loader).workers > input.loader->setting.workers;
  if (workers > input.loader->setting.workers && (has_more || faster_workers(input)))
    return fmt::format(
        "CPU transforms: with {} loader worker{}, making batches would still take {:.0f}% of each step",
        workers, workers == 1 ? "" : "s", 100 * left);
  return fmt::format(
      "CPU transforms: making batches takes {:.0f}% of each step, and more workers do not help on {:.3g} CPU "
      "core{}",
      100 * left, cores, cores == 1 ? "" : "s");
}

// PyTorch's own dataset of tensors makes no sample that could be cheaper.
void blame_single_samples(Finding& finding, const model::Loader& loader) {
  if (!loader.dataset.ends_with("TensorDataset") || loader.batch_size <= 1) return;
  finding.title = fmt::format(
      "CPU transforms: {} samples of a TensorDataset are indexed and stacked one by one for each batch",
      loader.batch_size);
  propose_whole_batches(finding, loader);
}

void describe(Finding& finding, const RuleInput& input, const predict::BatchCost& mean, double left) {
  finding.severity = Severity::kMinor;
  finding.title = title_of(input, left);
  finding.evidence = {{"CPU time to make a batch", mean.cpu_ns / 1e6, "ms"},
                      {"CPU time of a fetch", 100 * mean.cpu_ns / mean.service_ns, "% of its duration"},
                      {"cost left with a worker on every core", 100 * left, "% of the step"},
                      share_evidence(input, attribute::Category::InputTransform)};
  finding.fix.change = NamedChange{"transforms", ""};
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  finding.ceiling_speedup = ceiling_without_input(
      input, (input.rank.share(attribute::Group::Input) - draw_share(input)) * (1 - collating_mostly(input)));
}

// A pixel's neighbourhood of a compressed scene, a crop of a volume, a row of a file: the rest of what is
// read and decoded for it is thrown away. Decoded once, the scenes of 5 MB made the program 27 times as fast.
void blame_reading(Finding& finding, const InputFacts& facts) {
  if (!facts.is_counted || facts.tensor_bytes == 0) return;
  const double read = double(facts.bytes_read), kept = facts.tensor_bytes;
  if (read < kReadForNothing * kept) return;
  const double batches = double(facts.batches);
  finding.is_in_vain = true;
  finding.evidence.push_back({"read for a batch", read / batches / 1e6, "MB"});
  finding.evidence.push_back({"tensors of a batch", kept / batches / 1e6, "MB"});
  finding.fix.summary = fmt::format(
      "Read and decode each file once and keep it in memory, or store samples so that each can be read "
      "alone: {} are read for each batch of {}",
      size_words(read / batches), size_words(kept / batches));
}

// Instead of what training waits for.
void blame_full_cores(Finding& finding, const MachineUse& use, double share) {
  finding.title = fmt::format(
      "CPU transforms: the loader's workers take {:.1f} of the {:.1f} CPU cores that the job uses, and "
      "training "
      "the rest",
      use.worker_cores, use.job_cores);
  finding.evidence.insert(finding.evidence.begin(),
                          {{"CPU used by loader workers", use.worker_cores, "cores"},
                           {"CPU used by this job", use.job_cores, "cores"}});
  finding.explains = finding.explains | attribute::CategorySet{attribute::Category::Sched};
  finding.ceiling_speedup = std::max(*finding.ceiling_speedup, 1 / (1 - share));
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (const auto pipeline = unseen_pipeline(input)) {
    auto at_limit = in_pipeline(input, *pipeline);
    return at_limit ? at_limit : pipeline_finding(kInputDecode, input, PipelineCause::kTransforms);
  }
  if (!input.loader) return without_loader(input);
  const predict::BatchCost mean = predict::mean_batch(*input.loader);
  if (mean.service_ns <= 0 || mean.cpu_ns / mean.service_ns < kLeastCpuShare) return std::nullopt;
  if (reading_of(input) == Reading::kInVain) return std::nullopt;  // that CPU time is input-cacheable's
  const auto use = machine_use(input);
  const double of_cores = use ? share_of_cores(input, *use) : 0;
  const double transforms = is_most_of_the_stall(input.rank)
                                ? share_left(input)
                                : std::min(share_left(input), share_that_goes(input));
  const double left = std::max(of_cores, transforms);
  if (left < kLeastLeftWait || (left < kMostOfStep && do_more_workers_help(input))) return std::nullopt;
  Finding finding = make_finding(kInputDecode, input, left);
  describe(finding, input, mean, left);
  if (left == of_cores) blame_full_cores(finding, *use, of_cores);
  name_costly_function(finding, input);
  if (input.facts) blame_reading(finding, *input.facts);
  if (const model::Loader* configured = input.configured_loader()) blame_single_samples(finding, *configured);
  return finding;
}

}  // namespace

const Rule kInputDecode{
    "input-decode",
    "Decoding and augmentation need more CPU time than the cores can give, so no loader setting helps.",
    "Fetches are mostly CPU time, and the simulated replay with a worker on every core still waits for data, "
    "or trains more slowly on the cores that they leave, because workers and training fill them. Or "
    "training waits for tf.data or Keras, whose threads work in its process, and they fill the cores or hold "
    "the GIL. Or no "
    "loader is seen, and the training thread was sampled in a generator of the script, an iterator or a "
    "function named for it (`get_batch`, `ReplayBuffer.sample`), where it mostly computes.",
    "Make the function cheaper that making batches takes most of its time in (the report names it), or "
    "compute it once and keep the result, unless it is random. With a GPU: run it there. Where decoders of "
    "images, audio or archives were seen: source files of the size that training uses. Of a TensorDataset: "
    "index whole batches.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input,
    true};

}  // namespace gpuwatch::advise
